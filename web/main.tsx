import 'uplot/dist/uPlot.min.css';
import './console.css';
import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { FleetPage } from './fleet/fleet-page.tsx';
import { KeyForm } from './key-form.tsx';
import { KeysPage } from './keys/keys-page.tsx';
import { PlannerPage } from './planner/planner-page.tsx';
import { RequestPage } from './requests/request-page.tsx';
import { RequestsPage } from './requests/requests-page.tsx';
import { linkTo, type Place, usePlace } from './route.ts';
import type { LinkState } from './server.ts';
import { TryPage } from './try/try-page.tsx';
import { WorkerPage } from './worker/worker-page.tsx';

const ALL_PAGES = [
  ['fleet', 'Fleet'],
  ['requests', 'Requests'],
  ['planner', 'Planner'],
  ['try', 'Try it'],
  ['keys', 'Keys'],
] as const;

/** Whether a planner serves the page itself: it has no requests, and no fleet but its own. */
const IS_OF_PLANNER = location.pathname.endsWith('/planner/');
const PAGES = ALL_PAGES.filter(([name]) => !IS_OF_PLANNER || name === 'planner');
const FIRST = IS_OF_PLANNER ? 'planner' : 'fleet';

/** Properties of every page. */
export interface PageProps {
  readonly place: Place;
  /** Reports the state of the page's connection. */
  readonly onLink: (state: LinkState) => void;
}

function Page() {
  const place = usePlace();
  const [link, setLink] = useState<LinkState>({ kind: 'connecting' });
  const [attempt, setAttempt] = useState(0); // with another key
  const page = place.path[0] ?? FIRST;
  const title = PAGES.find(([name]) => name === page)?.[1] ?? PAGES[0]?.[1];
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} – Stator`;
    if (!isFirst.current) main.current?.focus(); // readers hear the new page
    isFirst.current = false;
  }, [title]);
  const needsKey = link.kind === 'refused' && (link.error.status === 401 || link.error.status === 403);
  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <span class="brand">Stator</span>
        <nav aria-label="Pages">
          {PAGES.map(([name, shown]) => (
            <a key={name} href={linkTo([name])} aria-current={name === page ? 'page' : undefined}>
              {shown}
            </a>
          ))}
        </nav>
        <LinkBadge link={link} />
      </header>
      <main id="main" ref={main} tabIndex={-1} key={attempt}>
        {needsKey && (
          <KeyForm
            why={link.error.message}
            onSaved={() => {
              setLink({ kind: 'connecting' });
              setAttempt(attempt + 1);
            }}
          />
        )}
        {link.kind === 'refused' && !needsKey && <p role="alert">{link.error.message}</p>}
        <div hidden={needsKey}>
          <Content place={place} onLink={setLink} />
        </div>
      </main>
    </>
  );
}

function Content({ place, onLink }: PageProps) {
  const [page = FIRST, id] = place.path;
  if (IS_OF_PLANNER || page === 'planner') return <PlannerPage place={place} onLink={onLink} />;
  if (page === 'requests' && id !== undefined) return <RequestPage id={id} onLink={onLink} />;
  if (page === 'workers' && id !== undefined) return <WorkerPage id={id} onLink={onLink} />;
  if (page === 'requests') return <RequestsPage place={place} onLink={onLink} />;
  if (page === 'keys') return <KeysPage place={place} onLink={onLink} />;
  if (page === 'try') return <TryPage place={place} onLink={onLink} />;
  return <FleetPage place={place} onLink={onLink} />;
}

const LINK_WORDS = { live: 'live', connecting: 'connecting', refused: 'no access' } as const;

function LinkBadge({ link }: { readonly link: LinkState }) {
  return (
    <span class={`link ${link.kind}`} role="status">
      {LINK_WORDS[link.kind]}
    </span>
  );
}

const root = document.getElementById('page');
// In a task of its own: together with loading the code, the first page would block the browser for more than 50 ms.
if (root !== null) setTimeout(() => render(<Page />, root), 0);
