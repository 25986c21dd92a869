"""Apply ClusterColocationProfiles to the Reservations that they select.

A Reservation holds resources for future pods, so it needs the attributes of those pods. Its own labels are
matched and written; scheduler and priority class are those of its template. Source: Koordinator,
`pkg/webhook/reservation/mutating/cluster_colocation_profile.go`.
"""

from typing import ClassVar

from koordpy.admission.handler import CREATE, Handle, MutatingHandler, Request
from koordpy.api.document import Document
from koordpy.api.plugin import PluginArgs

from .application import Target
from .profiles import Profiles


class ReservationColocationProfile(MutatingHandler):
    """The colocation profile handler of Reservation admission."""

    name: ClassVar[str] = "ClusterColocationProfile"
    path: ClassVar[str] = "/mutate-reservation"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.profiles = Profiles(handle, Target.RESERVATION)

    def mutate(self, request: Request, document: Document) -> None:
        """Apply the profiles that match. Resources are not translated."""
        if request.operation == CREATE:
            self.profiles.apply(request, document)
