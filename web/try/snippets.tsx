import { useState } from 'preact/hooks';
import { Scroll } from '../scroll.tsx';
import { asCurl, asPython, type ChatBody } from './chat.ts';

const KINDS = { curl: asCurl, Python: asPython } as const;
type Kind = keyof typeof KINDS;

/** The next request as a command or a program. @param body the body, or why it cannot be made */
export function Snippets({ path, body }: { readonly path: string; readonly body: ChatBody | Error }) {
  const [kind, setKind] = useState<Kind>('curl');
  const [isCopied, setCopied] = useState(false);
  if (body instanceof Error) return <p role="alert">{body.message}</p>;
  const text = KINDS[kind](path, body);
  return (
    <section class="snippets" aria-label="The request as code">
      <div class="bar-line">
        {(Object.keys(KINDS) as Kind[]).map((name) => (
          <button key={name} type="button" aria-pressed={name === kind} onClick={() => setKind(name)}>
            {name}
          </button>
        ))}
        <button
          type="button"
          onClick={() => {
            // Browsers refuse it on pages without TLS; the text can be selected there
            void navigator.clipboard?.writeText(text).then(() => setCopied(true));
            setTimeout(() => setCopied(false), 2000);
          }}
        >
          {isCopied ? 'Copied' : 'Copy'}
        </button>
      </div>
      <Scroll label={`The request as ${kind}`}>
        <pre>{text}</pre>
      </Scroll>
    </section>
  );
}
