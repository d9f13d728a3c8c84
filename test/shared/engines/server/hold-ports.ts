import { HeldPorts } from '../../../../shared/engines/server/held-ports.ts';

// Holds a port of the range that it is given until it is killed.
const [first = '', last = ''] = process.argv.slice(2);
const port = await new HeldPorts().take({ setting: 'RANGE', ports: { first: Number(first), last: Number(last) } });
console.log(`held ${port}`);
setInterval(() => {}, 1000);
