"""Schedules of jobs as cron expressions in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from ..domain.errors import InvalidSetting

_SETTING = "retention_schedule"
_FIELDS = 5


class CronSchedule:
    """A cron expression of five fields: minute, hour, day of month, month, day of week."""

    def __init__(self, expression: str) -> None:
        self._expression = " ".join(expression.split())
        # The library also accepts a sixth field for seconds.
        if len(self._expression.split()) != _FIELDS:
            raise InvalidSetting(_SETTING, f"{expression!r} {_REMEDY}")
        try:
            self.next_after(datetime(2024, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            problem = str(error).lower()
            raise InvalidSetting(
                _SETTING, f"{expression!r} has a {problem} and {_REMEDY}"
            ) from error
        except StopIteration as error:
            raise InvalidSetting(_SETTING, f"{expression!r} never runs and {_REMEDY}") from error

    def __str__(self) -> str:
        return self._expression

    def next_after(self, moment: datetime) -> datetime:
        return next(CronSim(self._expression, moment.astimezone(UTC)))


_REMEDY = (
    "is not a cron expression: give minute, hour, day, month and weekday, such as 0 2 * * * for "
    "02:00 UTC every day, or nothing to turn it off"
)
