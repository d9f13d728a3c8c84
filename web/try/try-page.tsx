import { useState } from 'preact/hooks';
import { type Fleet, useFleet } from '../fleet/use-fleet.ts';
import type { PageProps } from '../main.tsx';
import { linkTo } from '../route.ts';
import type { ChatBody, Message } from './chat.ts';
import { Snippets } from './snippets.tsx';
import { TurnView } from './turn-view.tsx';
import { messagesOf, useChat } from './use-chat.ts';

/** Page for a chat with any model. */
export function TryPage({ place, onLink }: PageProps) {
  const fleet = useFleet(undefined, onLink);
  if (fleet === undefined) return <p class="muted">Waiting for the models …</p>;
  return <TryChat fleet={fleet} wanted={place.query.get('model') ?? undefined} />;
}

interface Options {
  readonly maxTokens: string;
  readonly temperature: string;
  /** JSON of the tools; empty without any. */
  readonly tools: string;
}

const NO_OPTIONS: Options = { maxTokens: '', temperature: '', tools: '' };

function TryChat({ fleet, wanted }: { readonly fleet: Fleet; readonly wanted: string | undefined }) {
  const names = [...fleet.models.values()].filter((model) => model.takes_chats).map(({ name }) => name);
  const model = wanted !== undefined && names.includes(wanted) ? wanted : names[0];
  const [question, setQuestion] = useState('What are you?');
  const [options, setOptions] = useState(NO_OPTIONS);
  const [key, setKey] = useState('');
  const path = fleet.frontend.chat_path;
  const bodyOf = (messages: readonly Message[]): ChatBody => ({
    model: model ?? '',
    messages,
    ...optionsOf(options),
    stream: true,
    stream_options: { include_usage: true },
  });
  const talk = useChat({ path, key, model: model ?? '', bodyOf });
  if (model === undefined) return <p class="muted">No model that answers chats is there yet.</p>;
  return (
    <div class="try">
      <section aria-label="Conversation">
        <h1 class="unseen">Try it</h1>
        {talk.turns.map((turn, at) => (
          <TurnView
            key={at}
            turn={turn}
            price={fleet.models.get(turn.model)?.token_price ?? null}
            isLast={at === talk.turns.length - 1}
            isAnswering={talk.isAnswering}
          />
        ))}
        <form
          class="card ask"
          onSubmit={(event) => {
            event.preventDefault();
            if (!talk.isAnswering && question.trim() !== '') talk.send(question);
          }}
        >
          <label>
            Message
            <textarea
              rows={3}
              value={question}
              onInput={(event) => setQuestion(event.currentTarget.value)}
              onKeyDown={(event) => {
                if (event.key === 'Enter' && (event.ctrlKey || event.metaKey))
                  event.currentTarget.form?.requestSubmit();
              }}
            />
          </label>
          <div class="bar-line">
            <label>
              Model
              <select
                value={model}
                onChange={(event) => {
                  location.hash = linkTo(['try'], { model: event.currentTarget.value });
                }}
              >
                {names.map((name) => (
                  <option key={name}>{name}</option>
                ))}
              </select>
            </label>
            {talk.isAnswering ? (
              <button type="button" onClick={talk.stop}>
                Stop
              </button>
            ) : (
              <button type="submit" class="primary">
                Send
              </button>
            )}
            <button type="button" onClick={talk.clear} disabled={talk.turns.length === 0}>
              Clear
            </button>
          </div>
          <OptionFields options={options} onChange={setOptions} apiKey={key} onKey={setKey} />
        </form>
      </section>
      <Snippets path={path} body={bodyFor(() => bodyOf(messagesOf(talk.turns, question)))} />
    </div>
  );
}

/** Returns the body, or why it cannot be made. */
function bodyFor(make: () => ChatBody): ChatBody | Error {
  try {
    return make();
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

/** Returns the options as the API takes them. @throws Error with a text about tools that are no JSON array */
function optionsOf({ maxTokens, temperature, tools }: Options): Pick<ChatBody, 'max_tokens' | 'temperature' | 'tools'> {
  return {
    ...(maxTokens === '' ? {} : { max_tokens: Number(maxTokens) }),
    ...(temperature === '' ? {} : { temperature: Number(temperature) }),
    ...(tools.trim() === '' ? {} : { tools: toolsOf(tools) }),
  };
}

function toolsOf(text: string): readonly unknown[] {
  let tools: unknown;
  try {
    tools = JSON.parse(text);
  } catch (cause) {
    throw new Error(`The tools are not JSON: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
  if (!Array.isArray(tools)) throw new Error('The tools must be a JSON array');
  return tools;
}

interface OptionFieldsProps {
  readonly options: Options;
  readonly onChange: (options: Options) => void;
  readonly apiKey: string;
  readonly onKey: (key: string) => void;
}

function OptionFields({ options, onChange, apiKey, onKey }: OptionFieldsProps) {
  return (
    <details>
      <summary>Options</summary>
      <div class="options">
        <label>
          Max tokens
          <input
            type="number"
            min={1}
            value={options.maxTokens}
            onInput={(event) => onChange({ ...options, maxTokens: event.currentTarget.value })}
          />
        </label>
        <label>
          Temperature
          <input
            type="number"
            min={0}
            max={2}
            step={0.1}
            value={options.temperature}
            onInput={(event) => onChange({ ...options, temperature: event.currentTarget.value })}
          />
        </label>
        <label>
          API key, if clients need one
          <input
            type="password"
            autocomplete="off"
            value={apiKey}
            onInput={(event) => onKey(event.currentTarget.value)}
          />
        </label>
        <label class="all">
          Tools, as a JSON array
          <textarea
            rows={4}
            class="mono"
            spellcheck={false}
            value={options.tools}
            onInput={(event) => onChange({ ...options, tools: event.currentTarget.value })}
          />
        </label>
      </div>
    </details>
  );
}
