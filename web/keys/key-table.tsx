import { useState } from 'preact/hooks';
import type { ConsoleKey } from '../../shared/console/wire/keys.ts';
import { State } from '../fleet/model-table.tsx';
import { dayOf, short, text } from '../format.ts';
import { Scroll } from '../scroll.tsx';
import { Sure } from '../sure.tsx';
import { LIMITS, type Limits } from './limits.ts';
import { LimitsForm } from './limits-form.tsx';

interface KeyTableProps {
  readonly keys: readonly ConsoleKey[];
  /** Resolves with whether the limits are changed. */
  readonly onLimit: (id: string, limits: Limits) => Promise<boolean>;
  readonly onRotate: (id: string) => Promise<unknown>;
  readonly onRevoke: (id: string) => Promise<unknown>;
}

const COLUMNS = ['Key', 'Name', 'State', 'Owner', 'Scopes', 'Models', 'Requests', 'Tokens'] as const;
const NUMBERS: ReadonlySet<string> = new Set(['Requests', 'Tokens']);
/** Columns of the table with those of the limits, of two dates and of the buttons. */
const WIDTH = COLUMNS.length + LIMITS.length + 3;

/** Keys with their use and the rest of their budgets, the newest first. */
export function KeyTable({ keys, onLimit, onRotate, onRevoke }: KeyTableProps) {
  const [limited, setLimited] = useState<string>(); // whose limits are being changed
  return (
    <Scroll label="Table of keys">
      <table>
        <thead>
          <tr>
            {COLUMNS.map((name) => (
              <th key={name} scope="col" class={NUMBERS.has(name) ? 'n' : undefined}>
                {name}
              </th>
            ))}
            {LIMITS.map(({ name, left }) => (
              <th key={name} scope="col" class="n">
                {left}
              </th>
            ))}
            <th scope="col">Created</th>
            <th scope="col">Ends</th>
            <th scope="col">
              <span class="unseen">Changes</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.toReversed().map((key) => [
            <tr key={key.id}>
              <KeyCells of={key} />
              <td class="n">
                {key.state === 'valid' && (
                  <>
                    <button
                      type="button"
                      class="plain"
                      aria-label={`Limits of key ${key.id}`}
                      aria-expanded={limited === key.id}
                      onClick={() => setLimited(limited === key.id ? undefined : key.id)}
                    >
                      Limits
                    </button>
                    <Sure word="Rotate" about={`key ${key.id}`} onSure={() => onRotate(key.id)} />
                    <Sure word="Revoke" about={`key ${key.id}`} onSure={() => onRevoke(key.id)} />
                  </>
                )}
              </td>
            </tr>,
            limited === key.id && (
              <tr key={`${key.id} limits`}>
                <td colSpan={WIDTH}>
                  <LimitsForm
                    of={key}
                    onSave={async (limits) => {
                      if (await onLimit(key.id, limits)) setLimited(undefined);
                    }}
                    onKeep={() => setLimited(undefined)}
                  />
                </td>
              </tr>
            ),
          ])}
        </tbody>
      </table>
    </Scroll>
  );
}

function KeyCells({ of: key }: { readonly of: ConsoleKey }) {
  return (
    <>
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
      <td class="n">{short(key.used?.requests)}</td>
      <td class="n">{short(key.used?.tokens)}</td>
      {LIMITS.map(({ name }) => (
        <td key={name} class="n">
          {restOf(key, name)}
        </td>
      ))}
      <td>{dayOf(key.created_ms)}</td>
      <td>{key.expires_ms === null ? '–' : dayOf(key.expires_ms)}</td>
    </>
  );
}

/** Writes what is left of a limit: `58 of 60`, or the limit if this frontend does not count. */
function restOf(key: ConsoleKey, name: keyof Limits): string {
  const [limit, left] = [key[name], key.left?.[name]];
  return limit === null || left === null || left === undefined ? short(limit) : `${short(left)} of ${short(limit)}`;
}
