import { spawnNode } from './spawn-node.ts';

/** A process like those of the runner: it has a child that never ends by itself. */
const child = spawnNode(['-e', 'setInterval(() => {}, 1000)']);
console.log(`child ${child.pid}`);
