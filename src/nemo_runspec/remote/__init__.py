"""Jobs of other machines: recorded, submitted once, asked about politely, followed, ended. Nothing here watches."""
