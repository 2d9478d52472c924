"""Secure aggregation by a committee: every client sends one message, and members open the sum.

    client n    x_n + sum over groups j of PRG(s_nj)  to the server, and s_nj sealed to every member
                of group j, in one message
    member      opens its boxes, signs the list of clients whose sum is wanted, and, when enough
                members signed the same list, sends sum over n of PRG(s_nj)
    server      sum of the masked rows - sum over groups of what one of its members sent

A client that falls silent is not on the list, and costs nothing. The proof is in
docs/explanations/committee.md.
"""
