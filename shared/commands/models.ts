import { type Environment, resolveConfig } from '../config/index.ts';
import type { Catalogue } from '../discovery/index.ts';
import { openDiscovery } from '../fleet/index.ts';
import { openLogger } from '../telemetry/index.ts';
import { UsageError } from './config.ts';

/** Lines of `stator models --help`. */
export const MODELS_HELP = `Usage: stator models list [flags of discovery]
       stator models forget NAME [flags of discovery]

Lists or removes the models that a fleet remembers after their workers have left (discovery backend dynamodb). A
request for a remembered model waits for a worker (--hold-timeout) or gets a 503. A request for an unknown name gets
a 404.

  list           prints each model with its namespace, component and endpoint
  forget NAME    makes the name unknown if no worker serves it, until a worker registers it again

These variables name the fleet, as for a frontend: STATOR_DISCOVERY_TABLE, AWS_REGION, STATOR_DYNAMODB_ENDPOINT.
`;

const ANSWER_MS_MAX = 15_000;

/**
 * Runs `stator models`; resolves with what it prints.
 * @throws UsageError for a mistake in its arguments, Error with one line when the table cannot be read or the model is
 * not there
 */
export async function runModels(argv: readonly string[], env: Environment): Promise<string> {
  const { work, flags } = readCommand(argv);
  const { settings } = resolveConfig('frontend', flags, env);
  const logger = openLogger(settings);
  const discovery = await openDiscovery(settings, logger.for('discovery'), { isLasting: false });
  try {
    if (discovery.catalogue === undefined) {
      throw new UsageError(`discovery backend ${discovery.backend} keeps no models: they leave with their workers`);
    }
    return await work(discovery.catalogue, AbortSignal.timeout(ANSWER_MS_MAX));
  } finally {
    await discovery.close();
  }
}

interface ModelsCommand {
  readonly work: (catalogue: Catalogue, signal: AbortSignal) => Promise<string>;
  /** Flags for the parser of settings. */
  readonly flags: readonly string[];
}

function readCommand([verb, ...rest]: readonly string[]): ModelsCommand {
  if (verb === 'list') return { work: list, flags: rest };
  const [name, ...flags] = rest;
  if (verb === 'forget' && name !== undefined && !name.startsWith('-')) {
    return { work: (catalogue, signal) => forget(catalogue, name, signal), flags };
  }
  throw new UsageError('stator models takes: list, or forget NAME');
}

async function list(catalogue: Catalogue, signal: AbortSignal): Promise<string> {
  const models = await catalogue.list(signal);
  return models
    .map(({ card, namespace, component, endpoint }) => `${card.display_name}\t${namespace}.${component}.${endpoint}\n`)
    .join('');
}

async function forget(catalogue: Catalogue, name: string, signal: AbortSignal): Promise<string> {
  if (!(await catalogue.forget(name, signal))) throw new Error(`no model ${JSON.stringify(name)} is remembered`);
  return `${name} is forgotten\n`;
}
