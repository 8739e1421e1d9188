"""The memory of a device as one HTML file that needs nothing else: its peak, its course, and who holds it."""

from redline.report.html.frame import frame, template
from redline.report.html.memory.course_chart import course_chart
from redline.report.memory.memory_messages import cause_line, change_line, headline, remarks
from redline.report.memory.memory_result import MemoryResult
from redline.report.memory.memory_tables import accounts_table, devices_table, holders_table, modules_table
from redline.report.memory.text import facts, plan_tables, shown_causes
from redline.report.text_parts import clipped

_MOST_ROWS = 40


def render(result: MemoryResult) -> str:
    device = result.first
    tables = [accounts_table(device), *plan_tables(result)]
    if device.has_sites:
        tables.append(holders_table(device.shown, _MOST_ROWS))
    tables.append(modules_table(device, _MOST_ROWS))
    if len(result.devices) > 1:
        tables.append(devices_table(result))
    return template("memory/page.html.j2").render(
        **frame(clipped(device.file.rpartition("/")[2], 80), charts={}, tables={}, words={}),
        headline=headline(device),
        facts=list(facts(result, device)),
        chart=course_chart(device),
        shown_tables=[table for table in tables if table.rows],
        causes=[cause_line(cause) for cause in shown_causes(result)],
        changes=[change_line(change) for change in device.failure.changes] if device.failure else [],
        remarks=list(remarks(result, device)),
        failures=[clipped(failure.message, 300) for failure in result.failures],
    )
