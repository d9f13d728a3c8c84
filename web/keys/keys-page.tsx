import { useEffect, useState } from 'preact/hooks';
import type { ConsoleIssuedKey, ConsoleKey, ConsoleKeys } from '../../shared/console/wire/keys.ts';
import type { PageProps } from '../main.tsx';
import { ask, Refused } from '../server.ts';
import { KeyTable } from './key-table.tsx';
import { NewKeyForm } from './new-key-form.tsx';

const JSON_TYPE = { 'content-type': 'application/json' };

/** Page of the API keys: list with use and budgets, create, limit, rotate and revoke. */
export function KeysPage({ onLink }: PageProps) {
  const { keys, failure, issued, send, refresh } = useKeys(onLink);
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
      <div class="bar-line heading">
        <h2 id="keys">Keys</h2>
        <button type="button" onClick={refresh}>
          Refresh
        </button>
      </div>
      {keys.length === 0 ? (
        <p class="muted">There are no keys yet.</p>
      ) : (
        <KeyTable
          keys={keys}
          onLimit={(id, limits) =>
            send(pathOf(id), { method: 'PATCH', headers: JSON_TYPE, body: JSON.stringify(limits) })
          }
          onRotate={(id) => send(pathOf(id), { method: 'POST', headers: JSON_TYPE, body: '{}' })}
          onRevoke={(id) => send(pathOf(id), { method: 'DELETE' })}
        />
      )}
      <p class="muted small">
        Frontends notice a change within STATOR_KEY_CACHE_SECS (60 s). After a rotation, the previous secret stays valid
        for a day. Each frontend process counts use and limits for itself: these are the counts of this one since it
        started.
      </p>
    </>
  );
}

function pathOf(id: string): string {
  return `console/api/keys/${encodeURIComponent(id)}`;
}

/** Keeps the list of keys. `send` changes it, and resolves with whether that was done. */
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
  const send = async (path: string, init: RequestInit): Promise<boolean> => {
    setFailure(undefined);
    try {
      const told = (await (await ask(path, init)).json()) as ConsoleIssuedKey | ConsoleKey;
      setIssued((before) => issuedAfter(told, before));
      await look();
      return true;
    } catch (thrown) {
      fail(thrown);
      return false;
    }
  };
  useEffect(() => void look().catch(fail), []);
  return { keys, failure, issued, send, refresh: () => void look().catch(fail) };
}

/** Returns the secret that stays in sight after a change: it cannot be shown again, so only its own end removes it. */
function issuedAfter(told: ConsoleIssuedKey | ConsoleKey, before: ConsoleIssuedKey | undefined) {
  if ('text' in told) return told;
  return told.id === before?.key.id && told.state === 'revoked' ? undefined : before;
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
