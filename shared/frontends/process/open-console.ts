import { hostname } from 'node:os';
import packageJson from '../../../package.json' with { type: 'json' };
import type { Clock } from '../../clock/index.ts';
import type { EdgeSettings } from '../../config/index.ts';
import type { FleetConsole, OpenConsole } from '../../console/index.ts';
import type { LiveModelDirectory } from '../../pipeline/index.ts';
import { isLoopback } from '../../planes/index.ts';
import type { Routing } from '../../routing/index.ts';
import type { FrontendMetrics } from '../../telemetry/index.ts';
import { consoleRequests } from '../http/settings.ts';
import type { ServiceLifecycle } from '../inference/lifecycle.ts';
import { asksForKeys } from './access.ts';
import type { FrontendDeps } from './deps.ts';

const SHOWS_PROMPTS =
  'the console shows the prompts and answers of every client that reaches this address, and no API keys are required (--console-show-prompts)';

const NO_PLANNERS = {
  howToStart: 'This process reads no records of planners: `stator frontend` and `stator local --planner` do.',
  open: undefined,
};

/**
 * Creates what remembers requests for the console, and loads its code; undefined if the settings ask for no console.
 */
export async function createConsole(
  settings: EdgeSettings,
  clock: Clock,
  metrics: Pick<FrontendMetrics, 'outputTokensOf'>,
): Promise<FleetConsole | undefined> {
  const kept = consoleRequests(settings);
  if (kept === 0) return undefined;
  const { FleetConsole } = await import('../../console/index.ts');
  const showsPrompts = showsPromptsIn(settings);
  const tokenPrices = 'tokenPrices' in settings ? (settings.tokenPrices ?? []) : [];
  return new FleetConsole({ clock, kept, showsPrompts, tokenPrices, outputTokensOf: metrics.outputTokensOf });
}

function showsPromptsIn(settings: EdgeSettings): boolean {
  return 'consoleShowPrompts' in settings && settings.consoleShowPrompts === true;
}

/** Parts of the frontend that the console shows. */
interface ShownParts {
  readonly lifecycle: ServiceLifecycle;
  readonly explains: boolean;
  /** Routing, which knows caches and other routers. */
  readonly routing: Routing;
}

/**
 * Opens the console to viewers, until the frontend closes. Warns if it shows the texts of clients who are not known.
 */
export function openConsole(
  settings: EdgeSettings,
  { console, discovery, lifetime, planners = NO_PLANNERS, logger }: FrontendDeps,
  directory: LiveModelDirectory,
  { lifecycle, explains, routing }: ShownParts,
): OpenConsole | undefined {
  const facts = {
    version: packageJson.version,
    chatPath: settings.httpSvcChatPath,
    explains,
    host: hostname(),
    pid: process.pid,
    prices: 'instancePrices' in settings ? (settings.instancePrices ?? []) : [],
    stage: () => lifecycle.stage,
  };
  const isPrivate = settings.httpHost !== undefined && isLoopback(settings.httpHost);
  if (console !== undefined && showsPromptsIn(settings) && !asksForKeys(settings) && !isPrivate) {
    logger.for('http').warn(SHOWS_PROMPTS);
  }
  const [cacheOf, peers] = [routing.cacheOf?.bind(routing), routing.peers?.bind(routing)];
  return lifetime.use(console?.open({ directory, discovery, facts, cacheOf, peers, planners }));
}
