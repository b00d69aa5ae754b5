"""The verbs of the corpus, by what they need around them; see `read_verbs` for the columns."""

from dataclasses import dataclass

from pipelines.quickstart.grammar.words import Verb, read_verbs

INTRANSITIVE = read_verbs(
    "activity",
    """
    sleep slept slept | schlafen schläft geschlafen | | bedroom living_room garden hotel
    work worked worked | arbeiten arbeitet gearbeitet | | office garden factory hospital library
    laugh laughed laughed | lachen lacht gelacht | | theatre cinema kitchen garden
    cry cried cried | weinen weint geweint | | kitchen bedroom garden station
    dance danced danced | tanzen tanzt getanzt | | living_room street hotel garden
    sing sang sung | singen singt gesungen | | church theatre bathroom garden
    swim swam swum | schwimmen schwimmt geschwommen sein | | lake river
    run ran run | laufen läuft gelaufen sein | | park forest beach
    play played played | spielen spielt gespielt | | garden park street beach
    get got got up | auf+stehen steht aufgestanden sein
    arrive arrived arrived | an+kommen kommt angekommen sein | | station
    """,
)

LIVE = read_verbs("state", "live lived lived | wohnen wohnt gewohnt")[0]

TRANSITIVE = (
    read_verbs(
        "activity",
        """
    eat ate eaten | essen isst gegessen | fruit dish egg tomato | kitchen restaurant garden
    drink drank drunk | trinken trinkt getrunken | hot_drink cold_drink |
    drink drank drunk | trinken trinkt getrunken | hot_drink cold_drink | hotel restaurant kitchen
    eat ate eaten | essen isst gegessen | fruit dish egg tomato potato |
    cook cooked cooked | kochen kocht gekocht | soup rice potato egg | kitchen
    buy bought bought | kaufen kauft gekauft | fruit dish vegetable cold_drink article | market shop
    buy bought bought | kaufen kauft gekauft | garment vehicle device instrument furniture | city
    buy bought bought | kaufen kauft gekauft | press novel tableware container hot_drink | shop
    sell sold sold | verkaufen verkauft verkauft | vehicle instrument furniture house | city
    sell sold sold | verkaufen verkauft verkauft | fruit vegetable animal flower | market
    read read read | lesen liest gelesen | literature press post | library garden living_room park
    write wrote written | schreiben schreibt geschrieben | literature post | office library hotel
    look looked looked for | suchen sucht gesucht | article container cat dog shoe hat | house
    sing sang sung | singen singt gesungen | song | church theatre bathroom
    repair repaired repaired | reparieren repariert repariert | vehicle device door | garden cellar
    clean cleaned cleaned | putzen putzt geputzt | opening shoe mirror bathroom kitchen bicycle
    wash washed washed | waschen wäscht gewaschen | car shirt dress skirt sweater tableware dog
    open opened opened | öffnen öffnet geöffnet | opening suitcase bottle box letter bag cupboard
    close closed closed | schließen schließt geschlossen | opening suitcase box bag cupboard
    wear wore worn | tragen trägt getragen | garment
    put put put +on | an+ziehen zieht angezogen | shirt dress coat jacket skirt sweater suit shoe
    turn turned turned +on | ein+schalten schaltet eingeschaltet | lamp radio television computer
    turn turned turned +off | aus+schalten schaltet ausgeschaltet | lamp radio television computer
    take took taken +along | mit+nehmen nimmt mitgenommen | umbrella camera bag book gift dog guitar
    pick picked picked +up | ab+holen holt abgeholt | people
    invite invited invited | ein+laden lädt eingeladen | people
    visit visited visited | besuchen besucht besucht | people
    visit visited visited | besuchen besucht besucht | castle church city village island museum
    call called called | an+rufen ruft angerufen | people
    meet met met | treffen trifft getroffen | people | park station restaurant cinema
    feed fed fed | füttern füttert gefüttert | animal | garden park
    build built built | bauen baut gebaut | house boat
    tidy tidied tidied +up | auf+räumen räumt aufgeräumt | room
    help helped helped | helfen hilft geholfen dative | people | garden kitchen office
    listen listened listened to | zu+hören hört zugehört dative | people | church theatre school
    wait waited waited for | warten wartet gewartet auf/accusative | people | station park
    wait waited waited for | warten wartet gewartet auf/accusative | transport letter | street
    talk talked talked about | sprechen spricht gesprochen über/accusative | thought film trip
    look looked looked forward_to | sich_freuen freut gefreut auf/accusative | concert trip film
    """,
    )
    + read_verbs(
        "state",
        """
    understand understood understood | verstehen versteht verstanden | thought story poem report
    need needed needed | brauchen braucht gebraucht | key umbrella coat shoe vehicle furniture money
    have had had | haben hat gehabt | vehicle animal instrument device furniture problem plan
    know knew known | kennen kennt gekannt | people song story city village hotel
    love loved loved | lieben liebt geliebt | relatives dog cat horse rabbit city garden
    see saw seen | sehen sieht gesehen | people animal bridge castle island film
    hear heard heard | hören hört gehört | people song dog bird train concert
    """,
    )
    + read_verbs(
        "event",
        """
    find found found | finden findet gefunden | article hat shoe cat dog camera mistake | park
    lose lost lost | verlieren verliert verloren | key umbrella bag ball hat pencil money
    forget forgot forgotten | vergessen vergisst vergessen | key umbrella bag gift suitcase question
    """,
    )
)

DITRANSITIVE = read_verbs(
    "activity",
    """
    give gave given | geben gibt gegeben | gift book key flower apple pear banana ball doll money
    show showed shown | zeigen zeigt gezeigt | picture house garden film letter castle camera poem
    bring brought brought | bringen bringt gebracht | hot_drink dish newspaper flower glass chair
    send sent sent | schicken schickt geschickt | post gift picture flower
    explain explained explained to | erklären erklärt erklärt | thought poem story film
    """,
)

MOTION = read_verbs(
    "activity",
    """
    go went gone | gehen geht gegangen sein | | kitchen bathroom bedroom living_room cellar garden
    go went gone | gehen geht gegangen sein | | office school church hospital museum library market
    go went gone | gehen geht gegangen sein | | restaurant cinema theatre bakery shop factory
    drive drove driven | fahren fährt gefahren sein | | station castle city village factory hotel
    drive drove driven | fahren fährt gefahren sein | | lake river beach forest hospital market
    run ran run | laufen läuft gelaufen sein | | garden park forest station bridge
    """,
)
TRAVEL, FLY = read_verbs(
    "activity",
    """
    travel travelled travelled | reisen reist gereist sein
    fly flew flown | fliegen fliegt geflogen sein
    """,
)

SIT, LIE, STAND = read_verbs(
    "activity",
    """
    sit sat sat | sitzen sitzt gesessen
    lie lay lain | liegen liegt gelegen
    stand stood stood | stehen steht gestanden
    """,
)
# One English verb; the German verb depends on the thing.
PUT_STANDING, PUT_LYING = read_verbs(
    "activity",
    """
    put put put | stellen stellt gestellt
    put put put | legen legt gelegt
    """,
)

COME, STAY, RAIN, SNOW, SHINE = read_verbs(
    "activity",
    """
    come came come | kommen kommt gekommen sein
    stay stayed stayed | bleiben bleibt geblieben sein
    rain rained rained | regnen regnet geregnet
    snow snowed snowed | schneien schneit geschneit
    shine shone shone | scheinen scheint geschienen
    """,
)
BELONG, COST = read_verbs(
    "state",
    """
    belong belonged belonged to | gehören gehört gehört dative
    cost cost cost | kosten kostet gekostet
    """,
)
BE = read_verbs("state", "be been been | sein ist gewesen sein")[0]

# Verbs followed by a clause with that (dass) or a question (ob, wo, warum).
KNOW, SAY, BELIEVE, HOPE = read_verbs(
    "state",
    """
    know knew known | wissen weiß gewusst
    say said said | sagen sagt gesagt
    believe believed believed | glauben glaubt geglaubt
    hope hoped hoped | hoffen hofft gehofft
    """,
)
(TRY,) = read_verbs("activity", "try tried tried | versuchen versucht versucht")

_BY_NAME = {
    verb.english: verb
    for verb in reversed(
        (*INTRANSITIVE, *TRANSITIVE, *DITRANSITIVE, *MOTION, COME, STAY, RAIN, SNOW, SHINE)
    )
}


def verb_named(english: str) -> Verb:
    """Return the first verb in this file with this English word: `look` is "look for"."""
    return _BY_NAME[english]


@dataclass(frozen=True)
class Modal:
    """A modal verb before an infinitive, or "like to", which is an adverb in German (gern).

    Attributes:
        auxiliary: The English auxiliary (`can`) or `be`; empty for a verb that needs do.
        verb: The English verb (`want`), if there is no auxiliary.
        past: Past tense of the English verb (`wanted`).
        link: Words before the English infinitive (`to`).
        german: The German infinitive, or the special forms `sollte` and `möchte`.
        adverb: The German adverb, if German uses one instead of a verb.
    """

    auxiliary: str = ""
    verb: str = ""
    past: str = ""
    link: str = ""
    german: str = ""
    adverb: str = ""


MODALS = {
    "can": Modal(auxiliary="can", german="können"),
    "must": Modal(auxiliary="must", german="müssen"),
    "should": Modal(auxiliary="should", german="sollten"),
    "want": Modal(verb="want", past="wanted", link="to", german="wollen"),
    "would like": Modal(auxiliary="would", link="like to", german="möchten"),
    "be allowed": Modal(auxiliary="be", link="allowed to", german="dürfen"),
    "have to": Modal(verb="have", past="had", link="to", german="müssen"),
    "like": Modal(verb="like", past="liked", link="to", adverb="gern"),
}
