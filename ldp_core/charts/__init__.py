"""Pictures of estimates: Vega-Lite by Altair, which is imported when the first one is drawn."""
