"""A support bot that pays customers back."""

from pathlib import Path

from payments import Payments

from runefold import AgentSpec, CallId, Runtime, UnknownConversation, tool
from runefold.providers import Scripted, call
from runefold.testing import CrashApp, Effects

MODEL = Scripted(
    [
        ["I look your order up. ", call("look_up", order="A-17")],
        ["That is a refund. ", call("refund", order="A-17", cents=2000)],
        ["You have your 20.00 back. Sorry!"],
    ]
)


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
    try:
        session = runtime.session("conv_refund")
    except UnknownConversation:
        spec = AgentSpec(role="support", model="support", tools=["look_up", "refund"])
        session = runtime.create_session(spec, conversation_id="conv_refund")
    turn = session.send("My teapot arrived broken: order A-17.", message_id="complaint")
    turn.result(timeout=30)


def check(runtime: Runtime, effects: Effects) -> None:
    """Whatever happened, the customer has their money back, and has it once."""
    paid = [entry["cents"] for entry in Payments(runtime.log.directory).entries()]
    assert paid == [2000]
    assert effects.count("refund") >= 1


app = CrashApp(build, scenario, check)
