"""What the commands share. Importing it imports only the standard library."""
