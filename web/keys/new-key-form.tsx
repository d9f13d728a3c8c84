import { useState } from 'preact/hooks';
import { LIMITS } from './limits.ts';

const NUMBERS = [...LIMITS, { name: 'expires_days', shown: 'Ends after days' }] as const;
const SCOPES = ['inference', 'admin', 'metrics'] as const;

/** Form for a new key. */
export function NewKeyForm({ onCreate }: { readonly onCreate: (body: object) => Promise<boolean> }) {
  const [isSending, setSending] = useState(false);
  const create = async (form: HTMLFormElement): Promise<void> => {
    setSending(true);
    const isDone = await onCreate(bodyOf(new FormData(form)));
    setSending(false);
    if (isDone) form.reset();
  };
  return (
    <form
      class="bar-line filters"
      aria-label="New key"
      onSubmit={(event) => {
        event.preventDefault();
        void create(event.currentTarget);
      }}
    >
      <label>
        Name
        <input name="name" required maxLength={256} size={18} autocomplete="off" />
      </label>
      <label>
        Scope
        <select name="scope">
          {SCOPES.map((scope) => (
            <option key={scope}>{scope}</option>
          ))}
        </select>
      </label>
      <label>
        Models, with commas
        <input name="models" size={18} placeholder="all" autocomplete="off" />
      </label>
      {NUMBERS.map(({ name, shown }) => (
        <label key={name}>
          {shown}
          <input name={name} type="number" min={1} class="narrow" placeholder="none" />
        </label>
      ))}
      <button type="submit" class="primary" disabled={isSending}>
        Create
      </button>
    </form>
  );
}

/** Returns the fields as the server takes them, without empty ones. */
function bodyOf(form: FormData): object {
  const textOf = (name: string): string => String(form.get(name) ?? '').trim();
  const models = textOf('models')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const numbers = NUMBERS.flatMap(({ name }) => (textOf(name) === '' ? [] : [[name, Number(textOf(name))] as const]));
  return {
    name: textOf('name'),
    scopes: [textOf('scope')],
    ...(models.length === 0 ? {} : { models }),
    ...Object.fromEntries(numbers),
  };
}
