"""Scorers on a server, against one on this machine that answers in SGLang 0.5's and vLLM 0.33's documented formats.

Neither was tried against a live one. The server here has a tiny model, so that the oracle is that model itself.
"""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from utilities.tiny_language import llama, tokenizer

from fgsv.answers import HF, VLLM, Answer, Passage, ServerError, SGLang, game_of
from fgsv.utilities.language import served

pytestmark = pytest.mark.torch

PROMPTS, ANSWER = [[0, 9, 11], [0, 9, 12, 14], [0, 20]], [5, 6, 7]


class Server:
    """What a server does: how it replies, how many it served at a time, and what it was asked."""

    def __init__(self):
        self.model = llama(max_position_embeddings=256)
        self.asked, self.busy, self.most_busy = [], 0, 0
        self.lock = threading.Lock()
        self.seconds = 0.0
        self.failures = []
        self.change = lambda reply: reply

    def reply(self, path, body):
        about = {
            "/get_server_info": {"version": "0.5.9", "model_path": "tiny", "max_req_input_len": 256},
            "/version": {"version": "0.33.0"},
            "/v1/models": {"data": [{"id": "tiny", "root": "models/tiny", "max_model_len": 256}]},
        }
        if path in about:
            return about[path]
        ids = body["input_ids"] if path == "/generate" else body["prompt"]
        with torch.no_grad():
            logits = self.model(torch.tensor([ids]), use_cache=False).logits[0, :-1].double()
        logs = torch.log_softmax(logits, -1)[range(len(ids) - 1), ids[1:]].tolist()
        if path == "/generate":
            assert body["return_logprob"]
            entries = [[value, token, None] for value, token in zip([None, *logs], ids, strict=True)]
            entries[body["logprob_start_len"]][0] = None  # the first that is asked for has none
            return {"text": "", "meta_info": {"input_token_logprobs": entries[body["logprob_start_len"] :]}}
        assert (body["model"], body["prompt_logprobs"]) == ("tiny", 0)
        places = [{str(t): {"logprob": v, "rank": 2}} for v, t in zip(logs, ids[1:], strict=True)]
        return {"choices": [{"text": "x", "prompt_logprobs": [None, *places]}]}


@contextmanager
def serving(server):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
            with server.lock:
                server.asked.append((self.path, dict(self.headers)))
                server.busy += 1
                server.most_busy = max(server.most_busy, server.busy)
                failure = server.failures.pop(0) if server.failures and body else None
            time.sleep(server.seconds)
            with server.lock:
                server.busy -= 1
            if failure == "drop":
                raise ConnectionResetError
            found = {} if failure else server.change(server.reply(self.path, body))
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(failure or 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.handle_error = lambda *given: None  # clients that do not wait
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}"
        finally:
            running.shutdown()
            thread.join()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(served, "FIRST_PAUSE", 0.01)
    made = Server()
    with serving(made) as made.url:
        yield made


@pytest.mark.parametrize(("kind", "engine"), [(SGLang, "SGLang 0.5.9"), (VLLM, "vLLM 0.33.0")])
def test_coalitions_are_worth_the_same_as_on_this_machine(server, kind, engine):
    passages = [Passage("it was the best of times. To be or not to be.", "A"), Passage("Import numpy.", "B")]
    answer = Answer("was it the best", "it was the worst of times", passages)
    scorer = kind(server.url, tokenizer(), key="secret", weights="tiny 1")
    local = HF(llama(max_position_embeddings=256), tokenizer(), device="cpu")
    masks = np.array([[False] * 3, [True] * 3, [True, False, True]])
    assert np.abs(game_of(answer, scorer)(masks) - game_of(answer, local)(masks)).max() < 1e-4
    assert all(headers["Authorization"] == "Bearer secret" for _, headers in server.asked)
    assert "secret" not in repr(scorer.connection)
    assert (scorer.most_tokens, scorer.frame["weights"], scorer.frame["engine"]) == (256, "tiny 1", engine)


def test_a_bounded_number_of_requests_is_in_flight(server):
    scorer = SGLang(server.url, tokenizer(), at_once=3)
    server.seconds = 0.02
    scorer.logprob(PROMPTS * 4, ANSWER)
    assert 2 <= server.most_busy <= 3


@pytest.mark.parametrize("failure", [503, 429, "drop"])
def test_what_fails_for_a_time_is_tried_again(server, failure):
    scorer = SGLang(server.url, tokenizer(), at_once=1)
    expected = scorer.logprob(PROMPTS, ANSWER)
    before = len(server.asked)
    server.failures = [failure, failure]
    assert (scorer.logprob(PROMPTS, ANSWER) == expected).all()
    assert len(server.asked) - before == len(PROMPTS) + 2


@pytest.mark.parametrize(("failures", "tries", "error"), [([400], 1, "400"), ([500] * 6, 6, "500")])
def test_what_fails_for_good_is_an_error(server, failures, tries, error):
    scorer = SGLang(server.url, tokenizer(), at_once=1)
    server.failures = failures
    with pytest.raises(ServerError, match=f"failed after {tries} of 6 tries: HTTP Error {error}"):
        scorer.logprob(PROMPTS[:1], ANSWER)


def test_a_server_that_does_not_reply_in_time_is_an_error(server, monkeypatch):
    monkeypatch.setattr(served, "TRIES", 2)
    scorer = SGLang(server.url, tokenizer(), timeout=0.2)
    server.seconds = 0.5
    with pytest.raises(ServerError, match=r"after 2 of 2 tries: .*timed out"):
        scorer.logprob(PROMPTS[:1], ANSWER)


def with_last(place, found):
    def change(reply):
        reply["meta_info"]["input_token_logprobs"][-1][place] = found
        return reply

    return change


@pytest.mark.parametrize(
    ("kind", "change", "error"),
    [
        (SGLang, with_last(1, 4), "other tokens than the answer's"),
        (SGLang, with_last(0, 0.5), "returned 0.5 as a log-probability"),
        (SGLang, with_last(0, None), "returned nan as a log-probability"),
        (SGLang, lambda reply: {"content": "yes", "completion_probabilities": []}, "llama.cpp"),
        (SGLang, lambda reply: {"text": "", "meta_info": {}}, "no log-probabilities of the prompt's tokens"),
        (SGLang, lambda reply: b"<html>", "the reply is not JSON"),
        (VLLM, lambda reply: {"choices": [{"text": "x", "prompt_logprobs": None}]}, "no log-probabilities"),
    ],
)
def test_a_server_that_lies_is_an_error(server, kind, change, error):
    scorer = kind(server.url, tokenizer())
    server.change = change
    with pytest.raises(ServerError, match=error):
        scorer.logprob(PROMPTS, ANSWER)


@pytest.mark.parametrize("kind", [SGLang, VLLM])
def test_a_model_that_is_not_served_is_named(server, kind):
    with pytest.raises(ValueError, match=r"model must be one that .* serves: 'tiny'; got 'other'"):
        kind(server.url, tokenizer(), model="other")


def test_no_server_is_an_error(monkeypatch):
    monkeypatch.setattr(served, "FIRST_PAUSE", 0.0)
    with pytest.raises(ServerError, match="Connection refused"):
        SGLang("http://127.0.0.1:9", tokenizer())
    with pytest.raises(ValueError, match="must begin with http"):
        SGLang("file:///etc/passwd", tokenizer())
