import type { ConsoleKey } from '../../shared/console/wire/keys.ts';
import { LIMITS, type Limits } from './limits.ts';

interface LimitsFormProps {
  readonly of: ConsoleKey;
  readonly onSave: (limits: Limits) => Promise<void>;
  readonly onKeep: () => void;
}

/** Form for the limits of a key. An empty field means no limit. */
export function LimitsForm({ of: key, onSave, onKeep }: LimitsFormProps) {
  return (
    <form
      class="bar-line"
      aria-label={`Limits of key ${key.id}`}
      onSubmit={(event) => {
        event.preventDefault();
        void onSave(limitsOf(new FormData(event.currentTarget)));
      }}
    >
      {LIMITS.map(({ name, shown }) => (
        <label key={name}>
          {shown}
          <input name={name} type="number" min={1} class="narrow" placeholder="none" defaultValue={key[name] ?? ''} />
        </label>
      ))}
      <button type="submit" class="primary">
        Save
      </button>
      <button type="button" onClick={onKeep}>
        Keep
      </button>
    </form>
  );
}

function limitsOf(form: FormData): Limits {
  const entries = LIMITS.map(({ name }) => {
    const given = String(form.get(name) ?? '').trim();
    return [name, given === '' ? null : Number(given)] as const;
  });
  return Object.fromEntries(entries) as unknown as Limits;
}
