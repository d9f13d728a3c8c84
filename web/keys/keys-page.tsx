import { useEffect, useState } from 'preact/hooks';
import type { ConsoleIssuedKey, ConsoleKey, ConsoleKeys } from '../../shared/console/wire.ts';
import { State } from '../fleet/model-table.tsx';
import { dayOf, short, text } from '../format.ts';
import type { PageProps } from '../main.tsx';
import { Scroll } from '../scroll.tsx';
import { ask, Refused } from '../server.ts';
import { Sure } from '../sure.tsx';
import { NewKeyForm } from './new-key-form.tsx';

const JSON_TYPE = { 'content-type': 'application/json' };

/** Page of the API keys: list, create, rotate and revoke. */
export function KeysPage({ onLink }: PageProps) {
  const { keys, failure, issued, send } = useKeys(onLink);
  if (keys === undefined) return <p class="muted">{failure ?? 'Waiting for the keys …'}</p>;
  return (
    <>
      <h1 class="unseen">Keys</h1>
      {failure !== undefined && <p role="alert">{failure}</p>}
      {issued !== undefined && <Issued issued={issued} />}
      <NewKeyForm
        onCreate={(body) =>
          send('console/api/keys', { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) })
        }
      />
      <h2 id="keys">Keys</h2>
      {keys.length === 0 ? (
        <p class="muted">There are no keys yet.</p>
      ) : (
        <KeyTable
          keys={keys}
          onRotate={(id) => send(pathOf(id), { method: 'POST', headers: JSON_TYPE, body: '{}' })}
          onRevoke={(id) => send(pathOf(id), { method: 'DELETE' })}
        />
      )}
      <p class="muted small">
        Frontends notice a change within STATOR_KEY_CACHE_SECS (60 s). After a rotation, the previous secret stays valid
        for a day. Limits count at each frontend process.
      </p>
    </>
  );
}

function pathOf(id: string): string {
  return `console/api/keys/${encodeURIComponent(id)}`;
}

/** Keeps the list of keys, and sends changes. */
function useKeys(onLink: PageProps['onLink']) {
  const [keys, setKeys] = useState<readonly ConsoleKey[]>();
  const [failure, setFailure] = useState<string>();
  const [issued, setIssued] = useState<ConsoleIssuedKey>();
  const fail = (thrown: unknown): void => {
    const isAccess = thrown instanceof Refused && (thrown.status === 401 || thrown.status === 403);
    if (isAccess) onLink({ kind: 'refused', error: thrown });
    else setFailure(thrown instanceof Error ? thrown.message : String(thrown));
  };
  const look = async (): Promise<void> => {
    const response = await ask('console/api/keys');
    onLink({ kind: 'live' });
    setKeys(((await response.json()) as ConsoleKeys).keys);
  };
  const send = async (path: string, init: RequestInit): Promise<void> => {
    setFailure(undefined);
    try {
      const told = (await (await ask(path, init)).json()) as Partial<ConsoleIssuedKey>;
      setIssued(told.text === undefined ? undefined : (told as ConsoleIssuedKey));
      await look();
    } catch (thrown) {
      fail(thrown);
    }
  };
  useEffect(() => void look().catch(fail), []);
  return { keys, failure, issued, send };
}

function Issued({ issued: { text: secret, key } }: { readonly issued: ConsoleIssuedKey }) {
  return (
    <section class="card issued" role="status" aria-label="New key">
      <p>
        Key <b>{key.name}</b>. This page shows it only once:
      </p>
      <p class="mono">{secret}</p>
      <button type="button" onClick={() => void navigator.clipboard?.writeText(secret)}>
        Copy
      </button>
    </section>
  );
}

interface KeyTableProps {
  readonly keys: readonly ConsoleKey[];
  readonly onRotate: (id: string) => Promise<void>;
  readonly onRevoke: (id: string) => Promise<void>;
}

function KeyTable({ keys, onRotate, onRevoke }: KeyTableProps) {
  return (
    <Scroll label="Table of keys">
      <table>
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Name</th>
            <th scope="col">State</th>
            <th scope="col">Owner</th>
            <th scope="col">Scopes</th>
            <th scope="col">Models</th>
            <th scope="col" class="n">
              Requests/min
            </th>
            <th scope="col" class="n">
              Tokens/min
            </th>
            <th scope="col" class="n">
              Tokens/day
            </th>
            <th scope="col">Created</th>
            <th scope="col">Ends</th>
            <th scope="col">
              <span class="unseen">Changes</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.toReversed().map((key) => (
            <tr key={key.id}>
              <th scope="row" class="mono">
                {key.id}
              </th>
              <td class="cut" title={key.name}>
                {key.name}
              </td>
              <td>
                <State name={key.state} tone={key.state === 'valid' ? 'ready' : ''} />
              </td>
              <td class="cut">{key.owner === key.id ? '–' : key.owner}</td>
              <td>{key.scopes.join(', ')}</td>
              <td class="cut">{text(key.models?.join(', ') ?? 'all')}</td>
              <td class="n">{short(key.requests_per_minute)}</td>
              <td class="n">{short(key.tokens_per_minute)}</td>
              <td class="n">{short(key.tokens_per_day)}</td>
              <td>{dayOf(key.created_ms)}</td>
              <td>{key.expires_ms === null ? '–' : dayOf(key.expires_ms)}</td>
              <td class="n">
                {key.state === 'valid' && (
                  <>
                    <Sure word="Rotate" about={`key ${key.id}`} onSure={() => onRotate(key.id)} />
                    <Sure word="Revoke" about={`key ${key.id}`} onSure={() => onRevoke(key.id)} />
                  </>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
