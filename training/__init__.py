"""How one run happens: built, fitted, probed, recorded."""
