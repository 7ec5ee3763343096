"""A support bot that pays customers back."""

from pathlib import Path

from payments import Payments

from runefold import AgentSpec, CallId, Runtime, tool
from runefold.providers import Request, Scripted, ToolCall, call
from runefold.testing import CrashApp, Effects

COMPLAINT = "My teapot arrived broken: order A-17."
PAID = "You have your 20.00 back. Sorry!"
NOT_PAID = "I cannot pay you back right now; a colleague will. Sorry!"


def support(request: Request) -> list[str | ToolCall]:
    """Answer as a model would: look the order up, pay back, and say how that went."""
    results = [message for message in request.messages if message.role == "tool"]
    if not results:
        return ["I look your order up. ", call("look_up", order="A-17")]
    if len(results) == 1:
        return ["That is a refund. ", call("refund", order="A-17", cents=2000)]
    return [PAID if results[-1].status == "success" else NOT_PAID]


MODEL = Scripted(support)


def build(runtime_dir: Path) -> Runtime:
    """Open the runtime with the bot's tools and its model."""
    payments = Payments(runtime_dir)

    @tool(side_effects=False)
    def look_up(order: str) -> str:
        """Look an order up."""
        return f"{order}: one teapot, 20.00, delivered broken"

    @tool(idempotent=True)
    def refund(order: str, cents: int, key: CallId) -> str:
        """Give a customer their money back."""
        return payments.refund(order, cents, key)

    return Runtime.open(runtime_dir, tools=[look_up, refund], providers={"support": MODEL})


def scenario(runtime: Runtime) -> None:
    """Have one customer complain, and wait until the bot is done."""
    spec = AgentSpec(role="support", model="support", tools=["look_up", "refund"])
    session = runtime.session("conv_refund", create=spec)
    turn = session.send(COMPLAINT, message_id="complaint")
    turn.result(timeout=30)


def check(runtime: Runtime, effects: Effects) -> None:
    """Nobody is paid twice. Who is not paid is told so, and a crash is no reason for that."""
    paid = [entry["cents"] for entry in Payments(effects.directory).entries()]
    assert len(paid) <= 1
    if not paid:
        assert effects.fault, "nothing outside has failed"
        again = runtime.session("conv_refund").send(COMPLAINT, message_id="complaint")
        assert PAID not in again.result(timeout=30).output


app = CrashApp(build, scenario, check)
