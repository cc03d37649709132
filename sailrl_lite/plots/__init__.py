"""The figures of the study, drawn from its logs: what the paper reports beside ours.

python -m sailrl_lite.plots draws all of them into figures/; `every` names them, and `style` is how they look.
"""
