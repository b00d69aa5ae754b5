"""The nouns of the corpus, grouped by kinds to which verbs and adjectives refer.

Each line has the English singular and plural, and the German article, singular and plural. A dash
marks an unused plural. See `read_nouns` for the optional last column.
"""

from functools import cache

from pipelines.quickstart.grammar.words import Noun, read_nouns

_TABLES = {
    "kin": """
        father - der Vater -
        mother - die Mutter -
        grandfather - der Großvater -
        grandmother - die Großmutter -
        brother brothers der Bruder Brüder
        sister sisters die Schwester Schwestern
        son sons der Sohn Söhne
        daughter daughters die Tochter Töchter
        uncle - der Onkel -
        aunt - die Tante -
    """,
    "friend": """
        friend friends der Freund Freunde
        neighbour neighbours der Nachbar Nachbarn weak
        colleague colleagues der Kollege Kollegen weak
        boss - der Chef - Chefs
    """,
    "person": """
        man men der Mann Männer
        woman women die Frau Frauen
        child children das Kind Kinder
        boy boys der Junge Jungen weak
        girl girls das Mädchen Mädchen
        teacher teachers der Lehrer Lehrer
        student students der Student Studenten weak
        doctor doctors der Arzt Ärzte
        nurse nurses die Krankenschwester Krankenschwestern
        baker - der Bäcker -
        farmer farmers der Bauer Bauern weak
        policeman policemen der Polizist Polizisten weak
        musician musicians der Musiker Musiker
        actress - die Schauspielerin -
        artist artists der Künstler Künstler
        journalist journalists der Journalist Journalisten weak
        gardener - der Gärtner -
        tourist tourists der Tourist Touristen weak
        lawyer - der Anwalt -
        engineer engineers der Ingenieur Ingenieure
    """,
    "animal": """
        dog dogs der Hund Hunde
        cat cats die Katze Katzen
        horse horses das Pferd Pferde
        cow cows die Kuh Kühe
        bird birds der Vogel Vögel
        rabbit rabbits das Kaninchen Kaninchen
        pig pigs das Schwein Schweine
        mouse mice die Maus Mäuse
    """,
    "fruit": """
        apple apples der Apfel Äpfel
        pear pears die Birne Birnen
        banana bananas die Banane Bananen
    """,
    "vegetable": """
        potato potatoes die Kartoffel Kartoffeln
        tomato tomatoes die Tomate Tomaten
        egg eggs das Ei Eier
    """,
    "dish": """
        cake cakes der Kuchen Kuchen
        bread - das Brot -
        cheese - der Käse -
        meat - das Fleisch -
        rice - der Reis -
        soup - die Suppe -
    """,
    "hot_drink": """
        coffee - der Kaffee -
        tea - der Tee -
        milk - die Milch -
    """,
    "cold_drink": """
        water - das Wasser -
        beer - das Bier -
        wine - der Wein -
        juice - der Saft -
    """,
    "literature": """
        book books das Buch Bücher
        novel novels der Roman Romane
        story stories die Geschichte Geschichten
        poem poems das Gedicht Gedichte
    """,
    "press": """
        newspaper newspapers die Zeitung Zeitungen
    """,
    "post": """
        letter letters der Brief Briefe
        email emails die E-Mail E-Mails
        report reports der Bericht Berichte
    """,
    "garment": """
        shirt shirts das Hemd Hemden
        dress dresses das Kleid Kleider
        coat coats der Mantel Mäntel
        jacket jackets die Jacke Jacken
        skirt - der Rock -
        sweater sweaters der Pullover Pullover
        suit - der Anzug -
        shoe shoes der Schuh Schuhe
        hat hats der Hut Hüte
    """,
    "vehicle": """
        car cars das Auto Autos
        bicycle bicycles das Fahrrad Fahrräder
        boat boats das Boot Boote
    """,
    "transport": """
        bus - der Bus -
        train - der Zug -
        ship - das Schiff -
    """,
    "device": """
        lamp lamps die Lampe Lampen
        radio radios das Radio Radios
        television - der Fernseher -
        computer computers der Computer Computer
        camera cameras die Kamera Kameras
        telephone - das Telefon -
    """,
    "instrument": """
        guitar - die Gitarre -
        piano - das Klavier -
    """,
    "furniture": """
        table - der Tisch -
        chair chairs der Stuhl Stühle
        bed - das Bett -
        cupboard - der Schrank -
        sofa - das Sofa -
        mirror - der Spiegel -
    """,
    "tableware": """
        cup cups die Tasse Tassen
        plate plates der Teller Teller
        glass glasses das Glas Gläser
        knife knives das Messer Messer
        spoon spoons der Löffel Löffel
    """,
    "container": """
        bottle bottles die Flasche Flaschen
        bag bags die Tasche Taschen
        suitcase suitcases der Koffer Koffer
        box boxes die Kiste Kisten
        basket baskets der Korb Körbe
    """,
    "article": """
        key keys der Schlüssel Schlüssel
        umbrella umbrellas der Regenschirm Regenschirme
        gift gifts das Geschenk Geschenke
        ball balls der Ball Bälle
        doll dolls die Puppe Puppen
        pencil pencils der Bleistift Bleistifte
        picture pictures das Bild Bilder
        flower flowers die Blume Blumen
    """,
    "opening": """
        door doors die Tür Türen
        window windows das Fenster Fenster
    """,
    "room": """
        kitchen - die Küche -
        bathroom - das Badezimmer -
        bedroom - das Schlafzimmer -
        living_room - das Wohnzimmer -
        cellar - der Keller -
        office - das Büro -
    """,
    "building": """
        house houses das Haus Häuser
        school - die Schule -
        church churches die Kirche Kirchen
        hospital - das Krankenhaus -
        hotel - das Hotel -
        museum - das Museum -
        library - die Bibliothek -
        restaurant - das Restaurant -
        cinema - das Kino -
        theatre - das Theater -
        station - der Bahnhof -
        castle castles das Schloss Schlösser
        factory - die Fabrik -
        bakery - die Bäckerei -
        shop - der Laden -
    """,
    "landscape": """
        garden - der Garten -
        park - der Park -
        forest - der Wald -
        city - die Stadt -
        village - das Dorf -
        street - die Straße -
        market - der Markt -
        bridge - die Brücke -
        river - der Fluss -
        lake - der See -
        beach - der Strand -
        island - die Insel -
    """,
    "thought": """
        question questions die Frage Fragen
        problem problems das Problem Probleme
        plan plans der Plan Pläne
        idea ideas die Idee Ideen
        mistake mistakes der Fehler Fehler
    """,
    "performance": """
        song songs das Lied Lieder
        film films der Film Filme
        concert - das Konzert -
        trip - die Reise -
    """,
    "other": """
        weather - das Wetter -
        sun - die Sonne -
        time - die Zeit -
        money - das Geld -
    """,
}

NOUNS: dict[str, Noun] = {
    noun.english: noun for kind, table in _TABLES.items() for noun in read_nouns(kind, table)
}

MASS_NOUNS = frozenset(
    ("bread", "cheese", "meat", "rice", "soup", "coffee", "tea", "milk")
    + ("water", "beer", "wine", "juice", "time", "money")
)


@cache
def of_kind(*names: str) -> tuple[Noun, ...]:
    """Return the nouns of these kinds, or single nouns by their English, in the given order."""
    return tuple(
        noun for name in names for noun in NOUNS.values() if name in (noun.kind, noun.english)
    )
