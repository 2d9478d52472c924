"""Attacks of servers that do not follow the protocol: rehearsals alone play them."""
