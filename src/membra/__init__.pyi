# The public surface, listed once: `lazy_loader` reads this file when membra is imported, and type checkers do.
from .compare.distance import chamfer as chamfer
from .compare.distance import hungarian as hungarian
from .compare.distance import transport as transport
from .demo import run_demo as run_demo
from .describe.bag import Bag as Bag
from .describe.encoder import Encoder as Encoder
from .describe.recipe import MEMBRA as MEMBRA
from .describe.recipe import PAPER as PAPER
from .describe.recipe import Description as Description
from .describe.recipe import Recipe as Recipe
from .describe.recipe import describe as describe
from .describe.recipe import describe_fragment as describe_fragment
from .errors import MembraError as MembraError
from .errors import Refused as Refused
from .find.proposals import Proposal as Proposal
from .find.proposals import ProposalSettings as ProposalSettings
from .find.proposals import propose as propose
from .find.search import Hit as Hit
from .find.search import Ranking as Ranking
from .find.search import search as search
from .judge.evaluate import evaluate as evaluate
from .reproduce.run import reproduce as reproduce
from .see.glyphs import Glyphs as Glyphs
from .show.evidence import Evidence as Evidence
from .show.evidence import Match as Match
from .show.evidence import explain as explain
from .show.export import Exported as Exported
from .show.export import export as export
from .show.seen import Seen as Seen
from .show.seen import see_photograph as see_photograph
from .show.web.serve import serve as serve
from .sources.fragment import Fragment as Fragment
from .sources.fragment import fragments as fragments
from .store.collection import Collection as Collection
from .store.decide import decide as decide
from .store.index import index as index
from .store.verdicts import Verdict as Verdict
from .store.verdicts import Verdicts as Verdicts
from .store.verify import Verified as Verified
from .store.verify import verify as verify
from .train.adapt import adapt as adapt
from .train.encoders import Trained as Trained
from .train.encoders import train as train

__all__: list[str]
__version__: str
