import { useState } from 'preact/hooks';
import { savedKey, saveKey } from './server.ts';

/** Asks for the key of an operator. The tab keeps it until it is closed. */
export function KeyForm({ why, onSaved }: { readonly why: string; readonly onSaved: () => void }) {
  const [key, setKey] = useState(savedKey());
  return (
    <form
      class="card key-form"
      onSubmit={(event) => {
        event.preventDefault();
        saveKey(key.trim());
        onSaved();
      }}
    >
      <h1>A key is needed</h1>
      <p role="alert">{why}</p>
      <label>
        Admin key, or API key with the scope admin
        <input
          type="password"
          autocomplete="off"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
          required
        />
      </label>
      <button type="submit" class="primary">
        Open the console
      </button>
    </form>
  );
}
