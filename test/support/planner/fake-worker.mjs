// A worker as `stator local` sees it: it reports that it serves, and ends when its parent disconnects.
process.once('disconnect', () => process.exit(0));
process.send?.({ kind: 'ready' }, undefined, {}, () => {}); // fails if the parent has just disconnected
if (!process.connected) process.exit(0);
