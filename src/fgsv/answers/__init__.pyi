# The names of this package and where they live.

from .answer import Answer as Answer
from .answer import Passage as Passage
from .display import shaded as shaded
from .game import NothingToShare as NothingToShare
from .game import Prompt as Prompt
from .game import game_of as game_of
from .local import HF as HF
from .paying import royalties as royalties
from .pieces import Pieces as Pieces
from .reading import AnswerError as AnswerError
from .reading import Reading as Reading
from .reading import read_answers as read_answers
from .scorers import Scorer as Scorer
from .servers import VLLM as VLLM
from .servers import ServerError as ServerError
from .servers import SGLang as SGLang
from .telemetry import read_sessions as read_sessions
from .valuing import value as value
