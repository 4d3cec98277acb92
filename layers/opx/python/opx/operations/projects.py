"""Operations on projects and the groups in which they share knowledge. The policy judges the project that a request names."""

from __future__ import annotations

from typing import Annotated

from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Request, Text
from opx.domain.scopes import Identity, Scope
from opx.errors import InvalidScopeError
from opx.ingestion.corpus.clients import ProjectPlace, SightChange
from opx.operations.context import Context
from opx.operations.registry import Function, operation

ClientId = Annotated[Text, about("A client.")]


class GetProject(Request, frozen=True):
    client_id: ClientId
    project_id: Annotated[Text, about("A project of the client's.")]

    def __post_init__(self) -> None:
        """Raises `InvalidScopeError` without a project id, which would also be another route of the API."""
        if not Scope(self.client_id, project_id=self.project_id).project_id:
            raise InvalidScopeError("no project id")


def _named(_: Context, request: GetProject) -> Scope:
    return Scope(request.client_id, project_id=request.project_id)


class Project(Record, frozen=True):
    group_id: str
    visible: Annotated[tuple[str, ...], about("The scopes whose documents it sees.")]


@operation(
    http="GET /projects/{clientId}/{projectId}", function=Function.MANAGE, action=Action.SEE_PROJECT, target=_named
)
def get_project(context: Context, request: GetProject) -> Project:
    """Get a project's group, and the scopes whose documents it sees.

    All operations of projects raise `ForbiddenError` for projects beyond the caller's; their requests raise
    `InvalidScopeError` for malformed ids.
    """
    projects = context.system.corpus.projects
    group_id = projects.group_of(request.client_id, request.project_id)
    return Project(group_id, projects.reader(Identity(request.client_id, request.project_id)).visible)


class AssignProject(GetProject, frozen=True):
    group_id: Annotated[Text, about("The group; empty takes the project out of its group.")]

    def __post_init__(self) -> None:
        super().__post_init__()
        Scope(self.client_id, group_id=self.group_id)


@operation(
    http="PUT /projects/{clientId}/{projectId}", function=Function.MANAGE, action=Action.GROUP_PROJECTS, target=_named
)
def assign_project(context: Context, request: AssignProject) -> Project:
    """Put a project into a group.

    It applies from the next query on.
    """
    context.system.corpus.projects.assign(request.client_id, request.project_id, request.group_id)
    return get_project(context, GetProject(client_id=request.client_id, project_id=request.project_id))


class ProjectMove(Record, frozen=True):
    """Projects that see more or fewer documents than before, by id."""

    changes: tuple[SightChange, ...]


@operation(
    http="GET /projects/{clientId}/{projectId}/move",
    function=Function.MANAGE,
    action=Action.GROUP_PROJECTS,
    target=_named,
)
def preview_project_move(context: Context, request: AssignProject) -> ProjectMove:
    """Preview the changes of visibility if a project were put into a group.

    Nothing is changed.
    """
    changes = context.system.corpus.projects.effects(request.client_id, request.project_id, request.group_id)
    return ProjectMove(tuple(changes))


class ListProjects(Request, frozen=True):
    client_id: ClientId
    group_id: Annotated[Text, about("Only projects of this group.")] = ""


class ProjectList(Record, frozen=True):
    projects: tuple[ProjectPlace, ...]


@operation(
    http="GET /projects/{clientId}",
    function=Function.MANAGE,
    action=Action.GROUP_PROJECTS,
    target=lambda _, request: Scope(request.client_id),
)
def list_projects(context: Context, request: ListProjects) -> ProjectList:
    """List the projects of a client that had documents or were put into a group, by id."""
    registry = context.system.corpus.projects
    members = registry.members(request.client_id, request.group_id) if request.group_id else None
    found = registry.projects(request.client_id)
    return ProjectList(tuple(one for one in found if members is None or one.project_id in members))


class RemoveProject(GetProject, frozen=True):
    pass


@operation(
    http="DELETE /projects/{clientId}/{projectId}",
    function=Function.MANAGE,
    action=Action.GROUP_PROJECTS,
    target=_named,
)
def remove_project(context: Context, request: RemoveProject) -> ProjectMove:
    """Remove a project with its group membership; returns the changes of visibility.

    Its documents stay in its scope; the next ingested one registers it again.
    """
    registry = context.system.corpus.projects
    changes = registry.effects(request.client_id, request.project_id, "")
    registry.remove(request.client_id, request.project_id)
    return ProjectMove(tuple(changes))
