// A stand-in for `vllm serve`: it says what vLLM says, listens on what vLLM listens on, and serves with a helper
// process. Its environment sets how it behaves.
//
//   FAKE_VERSION      Release that it states, before it loads and when it is up.
//   FAKE_MUTE         It answers neither --version nor --help.
//   FAKE_UNKNOWN      Flags that its parser refuses and its list of arguments lacks, separated by commas.
//   FAKE_LOAD_MS      Time that it loads before it listens on anything.
//   FAKE_DIES=early   It ends before it loads.
//   FAKE_DEAF         It does not end on a signal to end.
//   FAKE_DROPS        path:times,... It closes the connection instead of answering, that many times.
//   FAKE_HANGS        A stream of tokens never ends.
import { spawn } from 'node:child_process';
import { readCommandLine } from './fake-engine/command-line.mjs';
import { bindPorts } from './fake-engine/ports.mjs';
import { serve } from './fake-engine/routes.mjs';

const commandLine = readCommandLine(process.argv.slice(2), process.env);
if (process.env.FAKE_DIES === 'early') {
  console.error('Traceback (most recent call last):\nValueError: no room on the device');
  process.exit(1);
}
if (process.env.FAKE_DEAF) process.on('SIGTERM', () => console.error('WARNING: will not stop'));
const helper = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
console.log(`INFO 11-22 loading, helper ${helper.pid}`);
console.error('WARNING 11-22 something is odd');
await new Promise((resolve) => setTimeout(resolve, Number(process.env.FAKE_LOAD_MS ?? 0)));
await bindPorts(commandLine, process.env);
serve(commandLine, process.env);
