"""Contracts of policies: what a robot needs to know to run one, ours and those of other programs."""

from rsl_rl.contracts.contract import Contract, contract_of, read_contract, write_contract

__all__ = ["Contract", "contract_of", "read_contract", "write_contract"]
