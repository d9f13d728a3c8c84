#!/usr/bin/env -S node --max-semi-space-size=4
// A small young generation: left alone V8's grows to 32 MiB on the first burst and stays there, which costs 17 KiB a stream
// at 1,000 streams; a frontend's garbage is short-lived strings, which a small one collects as well.
import packageJson from '../../package.json' with { type: 'json' };
import { ConfigError, type Process, renderHelp, resolveConfig } from '../../shared/config/index.ts';
import { nearestName, reasonOf } from '../../shared/errors/index.ts';
import { dumpConfig } from '../compose/dump-config.ts';
import { COMMANDS, type Command } from './commands.ts';
import { CONFIG_HELP, showConfig, UsageError } from './config.ts';
import { EXPLAIN_HELP, explainRouting } from './router-explain.ts';

const USAGE_EXIT = 2;
const FAILURE_EXIT = 1;
const IDLE_WAKE_MS = 3_600_000;

function renderCommands(): string {
  const about = (command: Command) =>
    command.kind === 'not built' ? `${command.about} (not built yet)` : command.about;
  const rows = Object.entries(COMMANDS).map(([name, command]) => [name, about(command)] as const);
  const lines = [...rows, ['config', 'Effective settings and where each came from'] as const].map(
    ([name, text]) => `  ${name.padEnd(10)} ${text}`,
  );
  return `Usage: stator COMMAND [flags]

Commands
${lines.join('\n')}

  stator COMMAND --help    every flag and variable of a command
  stator --version         the version

Settings are described in docs/configuration.md.
`;
}

function commandHelp(name: string, command: Command): string {
  const head = `Usage: stator ${name} [flags]\n\n${command.about}.\n`;
  if (command.kind === 'not built') return `${head}\nNot built yet.\n`;
  return `${head}\n  -h, --help, --version\n\n${renderHelp(name as Process)}`; // 'process' commands are named as theirs
}

/** Lines on stderr, each of them one line whatever a message quotes: plain, or one JSON object each where logs are read by machines. */
function report(level: 'warning' | 'error', lines: readonly string[], jsonl = false): void {
  for (const line of lines.map((text) => text.replaceAll(/\s*\n\s*/g, ' '))) {
    const time = new Date().toISOString();
    const record = { time, level: level === 'warning' ? 'WARN' : 'ERROR', target: 'config', message: line };
    process.stderr.write(
      jsonl ? `${JSON.stringify(record)}\n` : `stator: ${level === 'warning' ? 'warning: ' : ''}${line}\n`,
    );
  }
}

async function startProcess(
  name: Process,
  command: Command & { kind: 'process' },
  argv: readonly string[],
): Promise<number> {
  const config = resolveConfig(name, argv, process.env);
  const { loggingJsonl }: { readonly loggingJsonl?: boolean } = config.settings; // a command outside a fleet has no logs
  report('warning', config.warnings, loggingJsonl);
  await dumpConfig(config);
  const end = argv.indexOf('--');
  const args = end < 0 ? [] : argv.slice(end + 1);
  // The timers of a process do not keep it alive, so one that only waits, as for an engine, would end in the middle.
  const alive = setInterval(() => {}, IDLE_WAKE_MS);
  try {
    return await command.start({ settings: config.settings, config, args, env: process.env });
  } finally {
    clearInterval(alive);
  }
}

function refuseCommand(name: string): number {
  const nearest = nearestName(name, [...Object.keys(COMMANDS), 'config']);
  const hint = nearest === undefined ? 'stator --help lists all' : `did you mean stator ${nearest}?`;
  report('error', [`unknown command ${JSON.stringify(name)}; ${hint}`]);
  return USAGE_EXIT;
}

function asks(argv: readonly string[], ...flags: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? undefined : end).some((argument) => flags.includes(argument));
}

/** Runs the command line; resolves with the exit code. */
async function runCommand(argv: readonly string[]): Promise<number> {
  const [name, ...rest] = argv;
  if (name === undefined) {
    process.stdout.write(renderCommands());
    return USAGE_EXIT;
  }
  if (asks(argv, '--version')) {
    process.stdout.write(`stator ${packageJson.version}\n`);
    return 0;
  }
  if (name === '--help' || name === '-h' || name === 'help') {
    process.stdout.write(renderCommands());
    return 0;
  }
  const wantsHelp = asks(rest, '--help', '-h');
  if (name === 'config') return wantsHelp ? printHelp(CONFIG_HELP) : runConfig(rest);
  if (name === 'router' && rest[0] === 'explain') {
    return printHelp(wantsHelp ? EXPLAIN_HELP : await explainRouting(rest.slice(1)));
  }
  const command = Object.entries(COMMANDS).find(([known]) => known === name)?.[1];
  if (command === undefined) return refuseCommand(name);
  if (wantsHelp) return printHelp(commandHelp(name, command));
  if (command.kind === 'not built') {
    report('error', [`stator ${name} is not built yet; stator --help lists what is`]);
    return USAGE_EXIT;
  }
  return startProcess(name as Process, command, rest); // 'process' commands are named as theirs
}

function printHelp(text: string): number {
  process.stdout.write(text);
  return 0;
}

function runConfig(argv: readonly string[]): number {
  const { text, warnings } = showConfig(argv, process.env);
  process.stdout.write(text);
  report('warning', warnings);
  return 0;
}

function exitCodeOf(thrown: unknown): number {
  if (thrown instanceof ConfigError) {
    report('error', thrown.problems);
    return USAGE_EXIT;
  }
  report('error', [reasonOf(thrown).split('\n')[0] ?? 'failed']);
  // By name: the router is loaded by the commands that route, and its own checks are of settings as well.
  const isUsage = thrown instanceof UsageError || (thrown instanceof Error && thrown.name === 'KvRouterConfigError');
  return isUsage ? USAGE_EXIT : FAILURE_EXIT;
}

// Set, not called: what is written to a pipe leaves before the process does.
process.exitCode = await runCommand(process.argv.slice(2)).catch(exitCodeOf);
