import { useState } from 'preact/hooks';

interface SureProps {
  /** Word on the button, such as `Drain`. */
  readonly word: string;
  /** Object of the action, for readers of the screen. */
  readonly about: string;
  readonly onSure: () => unknown;
}

/** A button that acts at its second press. */
export function Sure({ word, about, onSure }: SureProps) {
  const [isAsking, setAsking] = useState(false);
  if (!isAsking) {
    return (
      <button type="button" class="plain" aria-label={`${word} ${about}`} onClick={() => setAsking(true)}>
        {word}
      </button>
    );
  }
  const act = (): void => {
    setAsking(false);
    onSure();
  };
  return (
    <>
      <button type="button" class="plain danger" aria-label={`${word} ${about} now`} onClick={act}>
        {word} now
      </button>
      <button type="button" class="plain" onClick={() => setAsking(false)}>
        Keep
      </button>
    </>
  );
}
