import { useState } from 'preact/hooks';

const LIMITS = [
  ['requests_per_minute', 'Requests a minute'],
  ['tokens_per_minute', 'Tokens a minute'],
  ['tokens_per_day', 'Tokens a day'],
  ['expires_days', 'Ends after days'],
] as const;
const SCOPES = ['inference', 'admin', 'metrics'] as const;

/** Form for a new key. */
export function NewKeyForm({ onCreate }: { readonly onCreate: (body: object) => Promise<void> }) {
  const [isSending, setSending] = useState(false);
  const create = async (form: HTMLFormElement): Promise<void> => {
    setSending(true);
    await onCreate(bodyOf(new FormData(form)));
    setSending(false);
    form.reset();
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
      {LIMITS.map(([name, shown]) => (
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
  const limits = LIMITS.flatMap(([name]) => (textOf(name) === '' ? [] : [[name, Number(textOf(name))] as const]));
  return {
    name: textOf('name'),
    scopes: [textOf('scope')],
    ...(models.length === 0 ? {} : { models }),
    ...Object.fromEntries(limits),
  };
}
