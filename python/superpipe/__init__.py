"""Runs CUDA programs whose models are larger than the GPU: superpipe run -- python script.py

This package holds the command and its libraries as any other installation does.
"""
