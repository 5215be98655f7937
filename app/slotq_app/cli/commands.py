"""What commands refuse as they are typed, and what was probably meant."""

from typing import TYPE_CHECKING, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

if TYPE_CHECKING:
    from typer._click.core import Command, Context

# A second one would silently take the place of the first, also where jobs are deleted.
ONCE: Final = frozenset({"--state", "--key", "--queue", "--task"})

MISSING_DASHES: Final = "-- must stand between KEY with its options and the command to run"


class OnceCommand(TyperCommand):
    """A command that refuses a filter given twice."""

    @override
    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # that is for completion, which refuses nothing
            _, _, order = self.make_parser(ctx).parse_args(list(args))
            for option in order:
                name = option.opts[0]
                if name in ONCE and order.count(option) > 1:
                    ctx.fail(f"{name} is given twice")
        return super().parse_args(ctx, args)


class HoldCommand(TyperCommand):
    """A command whose line ends with another command, after ``--``."""

    @override
    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        own, command = args[:end], args[end + 1 :]
        if not ctx.resilient_parsing:
            parsed, _, order = self.make_parser(ctx).parse_args(list(own))
            is_asked = any(option.name == "help" for option in order)
            if not is_asked and (parsed.get("command") or "--" not in args):
                ctx.fail(MISSING_DASHES)
            if not parsed.get("key") and "--" in command[:2]:
                # The key may begin with a dash: -- KEY -- COMMAND
                del args[end + 1 + command.index("--")]
        return super().parse_args(ctx, args)

    @override
    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        *pieces, last = super().collect_usage_pieces(ctx)
        return [*pieces, "--", last]


class RootGroup(TyperGroup):
    """All commands; one that is typed without its group is found."""

    @override
    def resolve_command(
        self, ctx: "Context", args: list[str]
    ) -> "tuple[str | None, Command | None, list[str]]":
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            meant = [
                repr(f"{name} {args[0]}")
                for name, group in self.commands.items()
                if isinstance(group, TyperGroup) and args[0] in group.commands
            ]
            if meant:
                error.message = f"No such command {args[0]!r}. Did you mean {' or '.join(meant)}?"
            raise
