// The page shows what the stream says and nothing else: reloaded, it is told all of it again.

const find = (id) => document.getElementById(id);
const chat = await chatOfThisPage();
const calls = new Map();
let answer = null;

const stream = new EventSource(`/chats/${chat}/events`); // comes back by itself, with Last-Event-ID
stream.onopen = () => say("live");
stream.onerror = () => say("away: it is tried again");
stream.onmessage = ({ data }) => {
  const atEnd = innerHeight + scrollY >= document.body.scrollHeight - 80;
  const event = JSON.parse(data);
  show[event.kind](event);
  if (atEnd) scrollTo(0, document.body.scrollHeight);
};

const show = {
  message({ content }) {
    bubble("bubble", content).className = "mine";
  },
  delta({ text }) {
    answer ??= bubble("bubble", "");
    answer.querySelector("p").textContent += text;
  },
  restarted() {
    // The process was killed: what came of this answer comes again.
    answer?.remove();
    answer = null;
  },
  call({ call_id, tool_name, arguments: given }) {
    answer = null;
    const words = Object.entries(given).map(([name, value]) => `${name}: ${value}`);
    const card = bubble("ask", `${tool_name} (${words.join(", ")})`);
    card.querySelector(".verdict").hidden = true;
    calls.set(call_id, card);
  },
  approval({ call_id }) {
    const card = calls.get(call_id);
    const buttons = card.querySelector(".verdict");
    buttons.hidden = false;
    buttons.onclick = async ({ target: { value } }) => {
      if (!value) return;
      for (const button of buttons.children) button.disabled = true;
      const done = await fetch(`/chats/${chat}/calls/${call_id}/${value}`, { method: "POST" });
      if (!done.ok) say((await done.json()).error);
    };
  },
  result({ call_id, status, output, reason }) {
    const card = calls.get(call_id);
    card.querySelector(".verdict").remove();
    card.querySelector("p").textContent += `\n${output ?? reason ?? status}`;
  },
  end() {
    answer = null;
  },
};

find("form").onsubmit = async (event) => {
  event.preventDefault();
  const text = find("text").value;
  find("text").value = "";
  const path = `/chats/${chat}/messages/${crypto.randomUUID()}`;
  for (let tried = 0; tried < 20; tried++) {
    try {
      // Sent again under the same id, it counts once.
      const done = await fetch(path, { method: "PUT", body: JSON.stringify({ text }) });
      if (!done.ok) say((await done.json()).error);
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
};

find("new").onclick = () => location.assign("/");

function bubble(template, text) {
  const made = find(template).content.firstElementChild.cloneNode(true);
  made.querySelector("p").textContent = text;
  return find("chat").appendChild(made);
}

function say(state) {
  find("state").textContent = state;
}

async function chatOfThisPage() {
  const known = location.hash.slice(1);
  if (known) return known;
  const { id } = await (await fetch("/chats", { method: "POST" })).json();
  history.replaceState(null, "", `#${id}`);
  return id;
}
