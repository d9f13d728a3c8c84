import { systemClock } from '../../../../shared/clock/index.ts';
import { EngineProcess } from '../../../../shared/engines/server/engine-process.ts';

// Starts an engine and waits to be killed.
const engine = new EngineProcess({
  command: { program: process.execPath, args: [process.argv[2] ?? '', 'serve', 'x', '--port', '0'], env: {} },
  clock: systemClock,
  onLine: (line) => {
    const helper = /helper (\d+)/.exec(line)?.[1];
    if (helper !== undefined) console.log(`engine ${engine.pid} helper ${helper}`);
  },
});
setInterval(() => {}, 1000);
