"""One module per tool; `AGENT_TOOLS` has all of them, in the order in which an agent would use them."""

from collections.abc import Mapping

from redline.mcp.tool import AgentTool
from redline.mcp.tools import compare, diagnose, explain, hardware, inspect, plan

AGENT_TOOLS: Mapping[str, AgentTool] = {
    tool.name: tool for tool in (inspect.TOOL, diagnose.TOOL, explain.TOOL, compare.TOOL, plan.TOOL, hardware.TOOL)
}
