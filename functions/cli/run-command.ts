import packageJson from '../../package.json' with { type: 'json' };
import { SYSTEM } from '../../shared/clock/index.ts';
import { CONFIG_HELP, showConfig } from '../../shared/commands/index.ts';
import {
  type Command,
  ConfigError,
  type Environment,
  renderBriefHelp,
  renderHelp,
  resolveConfig,
  type Settings,
} from '../../shared/config/index.ts';
import { nearestName } from '../../shared/errors/index.ts';
import { keptByNpm } from '../npm-flags.ts';
import { dumpConfig, exitCodeOf, report, stayAlive, USAGE_EXIT } from '../process.ts';
import { COMMANDS, ONE_SHOT_COMMANDS, type OneShotCommand } from './commands.ts';

/** Every command that a user can run, with its description, in the order of help. */
const RUNNABLE: readonly (readonly [name: string, about: string])[] = [
  ...Object.entries(COMMANDS).map(([name, { about }]) => [name, about] as const),
  ['grpc', 'Serves KServe v2 to Triton clients: stator frontend --kserve-grpc-server'],
  ...Object.entries(ONE_SHOT_COMMANDS).map(([name, { about }]) => [name, about] as const),
  ['config', 'Prints every setting with its effective value and its source'],
  ['version', 'Prints the version'],
];

const GRPC_HELP = `stator grpc runs stator frontend --kserve-grpc-server, which serves KServe v2 to Triton's clients, without OpenAI's
routes. It takes the flags of stator frontend. --http-host and --http-port (8000) set where it serves gRPC, and
--grpc-metrics-port (8788) where it serves health and metrics over HTTP.

`;

async function startProcess(name: Command, argv: readonly string[], env: Environment): Promise<number> {
  const meant = keptByNpm(name, argv, env);
  if (meant !== undefined) throw new ConfigError([`npm has kept flags for itself: write ${meant}`]);
  const named = resolveConfig(name, argv, env);
  const secrets = await readSecrets(named.settings, env);
  const config = secrets === undefined ? named : resolveConfig(name, argv, secrets.env);
  report('warning', config.warnings, config.settings.loggingJsonl);
  await dumpConfig(config);
  let look: NodeJS.Timeout | undefined;
  // Processes that started together do not all end together when a secret rotates: workers that drain hand over to
  // others.
  const first = secrets && setTimeout(() => (look = secrets.startLooking()), SYSTEM.random.next() * secrets.lookMs);
  try {
    return await stayAlive(() => COMMANDS[name].start(config, secrets?.env ?? env));
  } finally {
    clearTimeout(first);
    clearInterval(look);
  }
}

/**
 * Reads the secrets that the environment names in Secrets Manager; undefined if it names none. `startLooking` drains
 * the process when one has been rotated.
 */
async function readSecrets(settings: object, env: Environment) {
  if (!('secretCacheSecs' in settings)) return undefined;
  const { planeTokenSecret, natsSecret, secretCacheSecs } = settings as Settings<'frontend' | 'worker'>;
  const { idSecretSecret } = settings as Partial<Settings<'frontend'>>;
  if ((planeTokenSecret ?? idSecretSecret ?? natsSecret) === undefined) return undefined;
  const { openSecrets, SecretWatch } = await import('../../shared/fleet/index.ts');
  const { openLogger } = await import('../../shared/telemetry/index.ts');
  const secrets = await openSecrets(env);
  const lookMs = secretCacheSecs * 1000;
  const logger = openLogger(settings as Settings<'frontend' | 'worker'>).for('secrets');
  const watch = new SecretWatch(secrets, { clock: SYSTEM.clock, ageMsMax: 0, logger });
  const drainOnChange = async (): Promise<void> => {
    await watch.look();
    if (watch.isOutdated) process.kill(process.pid, 'SIGTERM'); // the supervisor starts it again with the new secrets
  };
  const startLooking = () => setInterval(() => void drainOnChange(), lookMs);
  return { env: secrets.env, lookMs, startLooking };
}

function isCommand(name: string): name is Command {
  return Object.hasOwn(COMMANDS, name);
}

function refuseCommand(name: string): number {
  const nearest = nearestName(
    name,
    RUNNABLE.map(([command]) => command),
  );
  const hint = nearest === undefined ? 'stator --help lists all' : `did you mean stator ${nearest}?`;
  report('error', [`unknown command ${JSON.stringify(name)}; ${hint}`]);
  return USAGE_EXIT;
}

function asks(argv: readonly string[], ...flags: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? undefined : end).some((argument) => flags.includes(argument));
}

function isHelpFlag(argument: string): boolean {
  return argument === '--help' || argument === '-h' || argument === '--help=all';
}

/** Kind of help that the arguments request: `--help` anywhere before `--`, with `all` behind it for everything. */
function readHelp(argv: readonly string[]): 'brief' | 'all' | undefined {
  const end = argv.indexOf('--');
  const own = argv.slice(0, end < 0 ? undefined : end);
  const at = own.findIndex(isHelpFlag);
  if (at < 0) return undefined;
  return own[at] === '--help=all' || own[at + 1] === 'all' ? 'all' : 'brief';
}

/** Rewrites `help COMMAND` to `COMMAND --help`, and the three ways to ask for the version to one. */
function normalize([name, ...rest]: readonly string[]): readonly string[] {
  if (name === '-v' || name === 'version') return ['--version'];
  if (name !== 'help') return name === undefined ? [] : [name, ...rest];
  const [command, ...more] = rest;
  return command === undefined || command === 'all' ? ['--help', ...rest] : [command, '--help', ...more];
}

/** Runs a command line that begins with the command. Resolves with the exit code, whatever fails. */
export function runCommandLine(argv: readonly string[], env: Environment): Promise<number> {
  return runCommand(argv, env).catch(exitCodeOf);
}

async function runCommand(argv: readonly string[], env: Environment): Promise<number> {
  const [name, ...rest] = normalize(argv);
  if (name === undefined) {
    process.stdout.write(renderOverview());
    return USAGE_EXIT;
  }
  if (name === '--version' || asks(rest, '--version')) return print(`stator ${packageJson.version}\n`);
  if (isHelpFlag(name)) return print(readHelp([name, ...rest]) === 'all' ? renderEverything() : renderOverview());
  const help = readHelp(rest);
  if (name === 'config') return help === undefined ? runConfig(rest, env) : print(CONFIG_HELP);
  if (name === 'router' && rest[0] === 'explain') {
    const { EXPLAIN_HELP, explainRouting } = await import('../../shared/commands/index.ts');
    return print(help === undefined ? await explainRouting(rest.slice(1)) : EXPLAIN_HELP);
  }
  if (name === 'planner' && rest[0] === 'explain') {
    const { EXPLAIN_PLANNER_HELP, explainPlanner } = await import('../../shared/commands/index.ts');
    const wallMs = SYSTEM.clock.wallMs();
    return print(help === undefined ? await explainPlanner(rest.slice(1), env, wallMs) : EXPLAIN_PLANNER_HELP);
  }
  if (name === 'planner' && rest[0] === 'report') {
    const { REPORT_PLANNER_HELP, reportPlanner } = await import('../../shared/commands/index.ts');
    const wallMs = SYSTEM.clock.wallMs();
    return print(help === undefined ? await reportPlanner(rest.slice(1), env, wallMs) : REPORT_PLANNER_HELP);
  }
  if (Object.hasOwn(ONE_SHOT_COMMANDS, name)) return runOnce(ONE_SHOT_COMMANDS[name]!, rest, help !== undefined, env);
  if (name === 'grpc') {
    if (help !== undefined) process.stdout.write(GRPC_HELP);
    return runCommand(['frontend', '--kserve-grpc-server', ...rest], env);
  }
  if (!isCommand(name)) return refuseCommand(name);
  return help === undefined ? startProcess(name, rest, env) : print(renderCommand(name, help));
}

async function runOnce(
  { load }: OneShotCommand,
  argv: readonly string[],
  asksHelp: boolean,
  env: Environment,
): Promise<number> {
  const { help, run } = await load();
  return print(asksHelp ? help : await run(argv, env, print));
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function runConfig(argv: readonly string[], env: Environment): number {
  const { text, warnings } = showConfig(argv, env);
  process.stdout.write(text);
  report('warning', warnings);
  return 0;
}

/** Returns the text of `stator --help`: the commands, and the usual start. */
function renderOverview(): string {
  const commands = RUNNABLE.map(([name, about]) => `  ${name.padEnd(10)} ${about}`);
  return `Usage: stator COMMAND [flags]

Commands
${commands.join('\n')}

${renderBriefHelp('local').replace('\nFlags\n', '\nFlags of stator local\n')}
  stator COMMAND --help        shows the most important flags of a command, with examples
  stator COMMAND --help all    shows every flag and variable of a command
  stator --help all            shows those of all commands
`;
}

/** Returns the text of `stator COMMAND --help`, or of `--help all`. */
function renderCommand(name: Command, extent: 'brief' | 'all'): string {
  const head = `Usage: stator ${name} [flags]\n\n${COMMANDS[name].about}.\n\n`;
  if (extent === 'all') return `${head}  -h, --help, --version\n\n${renderHelp(name)}`;
  return `${head}${renderBriefHelp(name)}
  stator ${name} --help all    shows every flag and variable
  stator config ${name}        shows every setting with its value
`;
}

/** Returns the text of `stator --help all`: every command with every flag and variable. */
function renderEverything(): string {
  const names = Object.keys(COMMANDS) as Command[]; // keys of COMMANDS
  return names.map((name) => renderCommand(name, 'all')).join('\n');
}
