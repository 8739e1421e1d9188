"""The verbs for AI agents: tools with bounded answers over the Model Context Protocol, which read allowed folders only.

`tools` has one module per tool: it calls a verb, and selects from the JSON report of that verb. Nothing is computed
anew.
"""
