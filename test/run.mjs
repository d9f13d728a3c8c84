// `npm test`: the end-to-end suites, which mostly wait, and beside them all others, which compute. With arguments: vitest with them.
import { spawn } from 'node:child_process';
import { setPriority } from 'node:os';

/** Nice enough to leave the processes of the end-to-end suites their turn, near enough to get one of every six. */
const NICENESS = 5;
const VITEST = 'node_modules/vitest/vitest.mjs';

/** Resolves with the exit code and what was written, which is empty where it went to our own output. */
function vitest(args, { isAside }) {
  const child = spawn(process.execPath, [VITEST, 'run', ...args], {
    stdio: ['ignore', isAside ? 'pipe' : 'inherit', isAside ? 'pipe' : 'inherit'],
  });
  if (isAside) setPriority(child.pid, NICENESS);
  const output = [];
  child.stdout?.on('data', (chunk) => output.push(chunk));
  child.stderr?.on('data', (chunk) => output.push(chunk));
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  return new Promise((resolve) => {
    child.on('close', (code) => resolve({ code: code ?? 1, output: Buffer.concat(output) }));
  });
}

const args = process.argv.slice(2);
if (args.length > 0) process.exitCode = (await vitest(args, { isAside: false })).code;
else {
  const endToEnd = vitest(['--project', 'e2e'], { isAside: false });
  const rooms = await vitest(['--project', 'rooms', '--project', 'steps'], { isAside: true });
  const { code } = await endToEnd;
  process.stdout.write(rooms.output); // in one piece, behind the other
  process.exitCode = rooms.code || code;
}
