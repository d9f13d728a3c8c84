import { useEffect, useState } from 'preact/hooks';
import { ask, type LinkState, Refused } from './server.ts';

/** An answer, or why there is none. */
export interface Asked<Answer> {
  readonly answer: Answer | undefined;
  readonly failure: string | undefined;
}

/** Asks the server once for each path and number. @param again another number asks again and keeps the last answer */
export function useAsked<Answer>(path: string, again: number, onLink: (state: LinkState) => void): Asked<Answer> {
  const [asked, setAsked] = useState<Asked<Answer> & { readonly path: string }>();
  useEffect(() => {
    const ending = new AbortController();
    const look = async (): Promise<void> => {
      try {
        const response = await ask(path, { signal: ending.signal });
        const answer = (await response.json()) as Answer;
        onLink({ kind: 'live' });
        setAsked({ path, answer, failure: undefined });
      } catch (thrown) {
        if (ending.signal.aborted) return;
        if (thrown instanceof Refused && thrown.status !== 404) onLink({ kind: 'refused', error: thrown });
        else setAsked({ path, answer: undefined, failure: thrown instanceof Error ? thrown.message : String(thrown) });
      }
    };
    void look();
    return () => ending.abort();
  }, [path, again]);
  return asked?.path === path ? asked : { answer: undefined, failure: undefined };
}
