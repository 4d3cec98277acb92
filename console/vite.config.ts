import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** The files go into the Python package, which serves them below /console/. Nothing is inlined: the policy forbids it. */
export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    outDir: "../layers/opx-serve/python/opx_serve/console_files",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2000,
  },
  test: { environment: "jsdom", include: ["src/**/*.test.{ts,tsx}"] },
});
