// The frontend inside a program of your own: its routes beside ours, on one server.
//   node examples/embedded-frontend.mjs
//   curl http://127.0.0.1:8000/hello
// Outside of a clone it needs `npm install @hono/node-server`, or any server that speaks fetch.
// @ts-check
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { createFrontend } from 'stator';

const frontend = await createFrontend({ flags: process.argv.slice(2) });

const server = createServer(
  getRequestListener((request) => {
    if (new URL(request.url).pathname === '/hello') return new Response(`models: ${frontend.models().join(', ')}\n`);
    return frontend.fetch(request);
  }),
);
server.listen(Number(process.env.PORT ?? 8000), '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object' && address !== null) console.log(`http://127.0.0.1:${address.port}`);
});

process.once('SIGTERM', async () => {
  await frontend.close();
  server.close();
  server.closeAllConnections();
});
