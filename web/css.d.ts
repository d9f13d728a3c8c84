/** Style sheets that the build takes up. */
declare module '*.css';
