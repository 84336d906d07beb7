"""When a job runs, as a cron expression in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from ...domain.errors import InvalidSetting

_SETTING = "retention_schedule"
_FIELDS = 5


class CronSchedule:
    """Five fields: minute, hour, day of the month, month, day of the week."""

    def __init__(self, expression: str) -> None:
        self._expression = " ".join(expression.split())
        # The library takes a sixth field for seconds, which no run is worth.
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
            raise InvalidSetting(_SETTING, f"{expression!r} never comes: {_REMEDY}") from error

    def __str__(self) -> str:
        return self._expression

    def next_after(self, moment: datetime) -> datetime:
        return next(CronSim(self._expression, moment.astimezone(UTC)))


_REMEDY = (
    "is no cron expression: write minute, hour, day, month and weekday, such as 0 2 * * * for "
    "02:00 UTC every day, or nothing to turn it off"
)
