import { useState } from 'preact/hooks';
import type { PageProps } from '../main.tsx';
import { linkTo } from '../route.ts';
import { RequestTable } from './request-table.tsx';
import { useRequests } from './use-requests.ts';

const FIELDS = ['model', 'key', 'worker', 'outcome', 'id'] as const;
const LABELS = { id: 'Request id', model: 'Model', key: 'Key', worker: 'Worker' } as const;
const OUTCOMES = ['running', 'succeeded', 'failed'] as const;

/** Page of the latest requests, live, with filters that the server applies. */
export function RequestsPage({ place, onLink }: PageProps) {
  const [isPaused, setPaused] = useState(false);
  const given = Object.fromEntries(FIELDS.map((name) => [name, place.query.get(name) ?? '']));
  const query = FIELDS.filter((name) => given[name] !== '')
    .map((name) => `&${name}=${encodeURIComponent(given[name] ?? '')}`)
    .join('');
  const { requests, loadMore } = useRequests(query, isPaused, onLink);
  const choose = (name: string, value: string): void => {
    setPaused(false); // the list is that of other requests
    location.hash = linkTo(['requests'], { ...given, [name]: value.trim() });
  };
  return (
    <>
      <h1 class="unseen">Requests</h1>
      <form class="bar-line filters" onSubmit={(event) => event.preventDefault()} aria-label="Filters">
        {(['id', 'model', 'key', 'worker'] as const).map((name) => (
          <label key={name}>
            {LABELS[name]}
            <input
              type="search"
              size={14}
              value={given[name]}
              onChange={(event) => choose(name, event.currentTarget.value)}
            />
          </label>
        ))}
        <label>
          Outcome
          <select value={given.outcome} onChange={(event) => choose('outcome', event.currentTarget.value)}>
            <option value="">any</option>
            {OUTCOMES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Follow' : 'Pause'}
        </button>
      </form>
      {requests === undefined ? (
        <p class="muted">Waiting for requests …</p>
      ) : (
        <RequestTable requests={requests} onEnd={loadMore} />
      )}
    </>
  );
}
