"""The base of all settings, and the user's own factories that a setting names (`module:factory`)."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from retrievers.config.files import user_path
from retrievers.errors import ConfigError, nearest
from retrievers.net import cause

# Marks a setting that is a mapping with keys of the user's own. A higher layer replaces it as a whole.
TABLE: dict[str, Any] = {"table": True}
ADDRESS = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[^\s/@?#:\[\]]+)(?::(?P<port>\d{1,5}))?(?:/[^\s@?#]*)?")
MOST_PORT = 65_535


class Settings(BaseModel):
    """Base of all settings. They are frozen, and defaults are checked, too.

    Unknown names are refused. `~` in a path is the user's home.

    Attributes:
        idle_beside: For a setting or section, the settings beside which it has no meaning. If a higher layer sets one
            of those, it is dropped.
        holds_for: For a setting, those whose values it is made for. If a higher layer changes one of these, it is
            dropped, and `left_out` says so.
    """

    idle_beside: ClassVar[Mapping[str, Sequence[str]]] = {}
    holds_for: ClassVar[Mapping[str, Sequence[str]]] = {}
    _left_out: dict[str, str] = PrivateAttr(default_factory=dict)
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @property
    def left_out(self) -> dict[str, str]:
        """A sentence by the name of each setting that was dropped because one that it holds for was changed."""
        return self._left_out

    @field_validator("*", mode="wrap")
    @classmethod
    def _at_home(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        path = handler(value)
        if isinstance(path, Path) and value == "":  # an empty variable of the shell would mean the current folder
            raise ValueError("expected the path of a file or folder")
        return user_path(path) if isinstance(path, Path) else path


def table(about: str) -> Any:
    """Return a field for a mapping with keys of the user's own. By default it is empty."""
    return Field(default_factory=dict, description=about, json_schema_extra=TABLE)


def field(default: Any, about: str, **limits: Any) -> Any:
    """Return a field with a default. A type checker that does not know pydantic sees that it has one."""
    return Field(default, description=about, **limits)


def section(model: type[BaseModel], about: str) -> Any:
    """Return a field for a section of settings. By default all of them have their defaults."""
    return Field(default_factory=lambda: model.model_validate({}), description=about)


class UnshownError(ValueError):
    """Refusal of a value that may be a secret. The message does not show it."""


def address(url: str, example: str, key: str) -> str:
    """Return the address of a server, without a slash at its end.

    Raises:
        ValueError: It is no address, or has credentials. `example` is an address, and `key` the place for a key.
    """
    match = ADDRESS.fullmatch(url)
    if not match or int(match["port"] or 0) > MOST_PORT:  # too large a port may be the beginning of a password
        plain = "without credentials, query and fragment"
        raise UnshownError(f"expected an http:// or https:// address such as {example}, {plain}; a key goes into {key}")
    return url.rstrip("/")


def matching(pattern: str, expected: str, refusal: type[ValueError] = UnshownError) -> Callable[[Any], str]:
    """Return a check that a setting matches a pattern. Its error, `refusal`, does not show the value by default."""

    def check(text: Any) -> str:
        if not isinstance(text, str) or not re.fullmatch(pattern, text):
            raise refusal(f"expected {expected}")
        return text

    return check


# The start of the addresses of pages: a path, or the address of a site.
page_base = matching(
    r"https?://[^\s/@?#]+(?:/[^?#]*)?|(?!//)(?![^/]*[@:])[^?#]*",
    "a path such as /docs or an address such as https://docs.example.com, without credentials, query and fragment, "
    "which every page would show",
)
# The name of a host, with its port where it has one.
host = matching(
    r"(?:[\w-]+(?:\.[\w-]+)*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?",
    "hosts such as docs.example.com or localhost:3000, and nothing before or behind",
)
# As in POSIX. A longer stretch of letters and digits is more likely a key.
_variable = matching(
    r"(?!.*[A-Z0-9]{25})[A-Z_][A-Z0-9_]{0,63}",
    "the name of an environment variable, such as COHERE_API_KEY, and not the key itself",
)
# The name of an environment variable that holds a key.
VariableName = Annotated[str, BeforeValidator(_variable)]
_factory = matching(r"[^:]*[^:\s][^:]*:.*\S.*", "'module:factory'", ValueError)
# The place of a factory of the user's own.
FactoryName = Annotated[str, AfterValidator(_factory)]


def faults_of(error: ValidationError) -> str:
    """Return the messages of all faults that pydantic found, in one line."""
    return "; ".join(str(fault["msg"]).removeprefix("Value error, ") for fault in error.errors())


def dump(settings: BaseModel) -> dict[str, Any]:
    """Return the settings as plain JSON values. Paths are absolute, so that they mean the same in any folder."""
    plain = settings.model_dump(mode="json")
    for name, value in settings:
        if name in plain and isinstance(value, BaseModel):
            plain[name] = dump(value)
        elif name in plain and isinstance(value, Path):
            plain[name] = str(user_path(value).absolute())
    return plain


def call_factory(target: str, setting: str) -> Any:
    """Call a factory without arguments and return its result.

    Args:
        target: `module:factory`. The module may be a file in the current folder.
        setting: Name of the setting, for messages.

    Raises:
        ConfigError: The factory cannot be imported or called, or raises an error.
    """
    factory = load_factory(target, setting)
    try:
        return factory()
    except (Exception, SystemExit) as error:  # the user's own code may raise anything, and leave with code 0
        raise ConfigError(f"{setting} {target!r} cannot be loaded: {cause(error)}") from error


def load_factory(target: str, setting: str) -> Callable[[], Any]:
    """Import a factory without calling it.

    Raises:
        ConfigError: The module cannot be imported or has no such factory.
    """
    name, _, attribute = target.partition(":")
    # If a script calls us, the path begins with the folder of that script.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{setting} {target!r} cannot be loaded: {cause(error)}") from error
    factory: Callable[[], Any] | None = getattr(module, attribute, None)
    if not callable(factory):
        near = nearest(attribute, (defined for defined, value in vars(module).items() if callable(value)))
        raise ConfigError(f"{setting} {target!r}: expected a function or class of {name}, found none{near}")
    return factory
