import { RESPONSES_KEYS } from './responses/body-keys.ts';
import { CHAT_KEYS, COMPLETIONS_KEYS } from './root-keys.ts';

/** Keys that may be told by their names: those of some dialect here, a list that no client can make longer. */
const NAMED: ReadonlySet<string> = new Set(
  [CHAT_KEYS, COMPLETIONS_KEYS]
    .flatMap(({ honoured, ignored }) => [...honoured, ...ignored])
    .concat([...RESPONSES_KEYS]),
);

/** What every other key is called. */
const OTHER = 'other';

/**
 * The root keys of `body` that its route does not know and therefore ignores, as labels of a metric: by name where the key
 * means something in another dialect (`max_tokens` sent to Responses), else `other`; each label once.
 */
export function ignoredKeyLabels(
  body: Readonly<Record<string, unknown>>,
  known: ReadonlySet<string>,
): readonly string[] {
  const labels = new Set<string>();
  for (const key in body) if (!known.has(key)) labels.add(NAMED.has(key) ? key : OTHER);
  return [...labels];
}
