import { expect, it } from 'vitest';
import { chaos } from '../../../bench/chaos.ts';
import { IS_FULL } from './matrix-bed.ts';

/** The ten-minute form is `npm run bench -- --only chaos`. */
const SECONDS = IS_FULL ? 60 : 15;

it('workers killed and restarted at random under 200 streams loses nothing and leaves nothing', async () => {
  const figures = new Map((await chaos(SECONDS)).map(({ figure, values }) => [figure, values.stator]));
  const { served, ...lost } = Object.fromEntries(figures);
  expect(served).toBeGreaterThan(0);
  expect(lost).toEqual({ failed: 0, 'wrong text': 0, 'slots left': 0, 'blocks left': 0, 'sockets left': 0 });
}, 240_000);
