import { type ParseArgsConfig, parseArgs } from 'node:util';
import {
  type Environment,
  PROCESSES,
  type Process,
  renderConfigurationDocs,
  renderSettings,
  renderSettingsJson,
  resolveConfig,
} from '../config/index.ts';
import { reasonOf } from '../errors/index.ts';

/** A mistake on the command line, because of which the command cannot run. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Parses flags as `parseArgs` of `node:util` does. @throws UsageError */
export function parseFlags<const Config extends ParseArgsConfig>(config: Config): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config);
  } catch (thrown) {
    throw new UsageError(reasonOf(thrown));
  }
}

const FORMATS = ['table', 'json', 'markdown'] as const;
type Format = (typeof FORMATS)[number];

/** Lines of `stator config --help`. */
export const CONFIG_HELP = `Usage: stator config [COMMAND] [--json | --format table|json|markdown] [flags of COMMAND]

Prints every setting of COMMAND (default: local) with its effective value and its source: flag, variable or default.
Secrets appear as ***.

  --json               is short for --format json
  --format FORMAT      table (default), json, or markdown: the page docs/configuration.md, without values
`;

function readFormat(text: string | undefined): Format {
  const format = FORMATS.find((candidate) => candidate === text);
  if (format === undefined)
    throw new UsageError(`--format ${JSON.stringify(text ?? '')}: allowed: ${FORMATS.join(', ')}`);
  return format;
}

function readProcess(name: string): Process {
  const process = PROCESSES.find((candidate) => candidate === name);
  if (process === undefined) {
    throw new UsageError(
      `no settings for ${JSON.stringify(name)}; stator config takes one of: ${PROCESSES.join(', ')}`,
    );
  }
  return process;
}

interface ConfigRequest {
  readonly process: Process;
  readonly format: Format;
  /** Flags of the process, for its own parser. */
  readonly argv: readonly string[];
}

function readRequest(argv: readonly string[]): ConfigRequest {
  const named = argv[0] !== undefined && !argv[0].startsWith('-');
  const argumentsLeft = named ? argv.slice(1) : [...argv];
  let format: Format = 'table';
  const own: string[] = [];
  for (let at = 0; at < argumentsLeft.length; at += 1) {
    const argument = argumentsLeft[at]!;
    if (argument === '--json') format = 'json';
    else if (argument === '--format') {
      at += 1;
      format = readFormat(argumentsLeft[at]);
    } else if (argument.startsWith('--format=')) format = readFormat(argument.slice('--format='.length));
    else own.push(argument);
  }
  return { process: named ? readProcess(argv[0]!) : 'local', format, argv: own };
}

/** The output of `stator config` and the warnings to print beside it. */
export interface ConfigOutput {
  readonly text: string;
  readonly warnings: readonly string[];
}

/**
 * Runs `stator config`.
 *
 * @throws UsageError for a mistake in its own arguments, ConfigError for one in the settings.
 */
export function showConfig(argv: readonly string[], env: Environment): ConfigOutput {
  const { process, format, argv: own } = readRequest(argv);
  if (format === 'markdown') return { text: renderConfigurationDocs(), warnings: [] };
  const config = resolveConfig(process, own, env, { allowMissing: true });
  return { text: format === 'json' ? renderSettingsJson(config) : renderSettings(config), warnings: config.warnings };
}
